-- What MariaDB 11.8 has and 10.11 has not.
set timestamp = 1700000000, sql_mode = '', time_zone = '+00:00';
create database d default charset latin1;
use d;
create table vectors (id int primary key, a vector(1), b vector(63), c vector(64), d uuid, e inet4);
insert into vectors select seq, vec_fromtext('[1]'), vec_fromtext(concat('[1', repeat(',2', 62), ']')), vec_fromtext(concat('[1', repeat(',-2', 63), ']')),
  '123e4567-e89b-12d3-a456-426655440000', '1.2.3.0' from seq_1_to_40;
insert into vectors (id, d) select seq, null from seq_41_to_70;
update vectors set a = null;
create table indexed (id int primary key, a vector(5) not null, vector index (a));
insert into indexed select seq, vec_fromtext(concat('[', seq, ',1,2,3,4]')) from seq_1_to_40;
delete from indexed where id > 20;
