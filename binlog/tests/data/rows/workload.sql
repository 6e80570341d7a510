-- What the fixtures beside this file recorded: every column type at its edges, in full, minimal and
-- noblob images, and the statements that mix tables. Recorded twice, by servers whose
-- binlog_row_event_max_size was 256 and 8192; see record.sh.
set timestamp = 1700000000, sql_mode = '', time_zone = '+00:00';
create database d default charset latin1;
use d;

create table numbers (id int primary key, a tinyint, b smallint unsigned, c mediumint, d int, e bigint,
  f float, g double, h float(5,2), i boolean, j year, k bit(1), l bit(7), m bit(8), n bit(9), o bit(63), p bit(64));
insert into numbers select seq, -128, 65535, -8388608, 2147483647, -9223372036854775808, 1.5, -2.5, 3.25, true,
  2155, b'1', b'1111111', b'11111111', b'111111111', seq, 18446744073709551615 from seq_1_to_30;
insert into numbers (id) select seq from seq_31_to_60;
insert into numbers select seq, if(seq % 2, null, 1), 0, null, if(seq % 3, 1, null), 0, 0, null, 0, 0, 1901, 0, 0, 0,
  null, 0, 0 from seq_61_to_90;
create table bits (id int primary key, a bit(13), b bit(17), c bit(33), d bit(64)) engine=myisam;
insert into bits select seq, 8191, 131071, 8589934591, 18446744073709551615 from seq_1_to_40;

create table decimals (a decimal(65,38), b decimal(65,30), c decimal(65,0), d decimal(1,0), e decimal(9,9), f decimal(10,2),
  g decimal(18,9), h decimal(19,10), i decimal(38,38));
insert into decimals select 999999999999999999999999999.99999999999999999999999999999999999999, -1.5, 1e64, -9, 0.999999999,
  seq, -99999999.99, 12345.6789, 0.1 from seq_1_to_30;
insert into decimals select null, seq, null, 1, null, -seq, 0, 0, 0 from seq_1_to_30;

create table temporals (id int primary key, a date, b datetime, c datetime(1), d datetime(2), e datetime(3), f datetime(4), g datetime(5),
  h datetime(6), i timestamp null, j timestamp(1) null, k timestamp(2) null, l timestamp(3) null, m timestamp(4) null,
  n timestamp(5) null, o timestamp(6) null, p time, q time(1), r time(2), s time(3), t time(4), u time(5), v time(6));
insert into temporals (id, a, b, c, d, e, f, g, h) select seq, '9999-12-31', '9999-12-31 23:59:59', '1000-01-01 00:00:00.9',
  0, '2026-11-30 12:00:00.123', '2026-11-30 12:00:00.1234', '2026-11-30 12:00:00.12345', '2026-11-30 12:00:00.123456' from seq_1_to_20;
insert into temporals (id, i, j, k, l, m, n, o, p, q, r, s, t, u, v) select seq, '2038-01-19 03:14:07', '2038-01-19 03:14:07.9',
  '2001-01-01 00:00:00.99', now(3), now(4), now(5), '2038-01-19 03:14:07.999999', '-838:59:59', '838:59:59.9', '-00:00:00.01',
  '12:00:00.123', '-12:00:00.1234', '1:2:3.12345', '-838:59:59.999999' from seq_21_to_40;

create table texts (id int primary key, a char(0), b char(1), c char(255), d char(63) charset utf8mb4, e char(64) charset utf8mb4,
  f char(255) charset utf8mb4, g binary(255), h varchar(0), i varchar(255), j varchar(256), k varchar(63) charset utf8mb4,
  l varchar(64) charset utf8mb4, m varbinary(255), n varbinary(3000));
insert into texts select seq, '', 'x', repeat('c', seq * 12), 'd', repeat('é', 64), repeat('😀', seq * 12), repeat('g', 200), '',
  repeat('i', 255), repeat('j', 256), repeat('😀', 63), repeat('😀', 64), x'00ff00', repeat('n', seq * 100) from seq_1_to_20;
insert into texts (id, i, j) select seq, if(seq % 2, '', null), if(seq % 3, '', null) from seq_21_to_50;

create table lobs (id int primary key, n int, a tinyblob, b blob, c mediumblob, d longblob, e tinytext, f text, g mediumtext, h longtext,
  i json, j geometry, k point, l linestring, m polygon);
insert into lobs select seq, seq, repeat('a', 255), repeat('b', seq * 30), repeat('c', seq * 9), 'd', '', 'f', repeat('g', 300), 'h',
  '{"a": [1, 2, null]}', point(1, 2), point(seq, -1), st_geomfromtext('linestring(0 0,1 1,2 0)'),
  st_geomfromtext('polygon((0 0,1 0,1 1,0 0))') from seq_1_to_14;
insert into lobs (id, n) select seq, seq from seq_15_to_40;
insert into lobs (id, b, c, h) values (41, repeat('b', 65535), repeat('c', 65536), repeat('h', 70000)), (42, '', '', '');

create table sets (id int primary key, a enum('a','b'), b set('a','b','c'), c set('1','2','3','4','5','6','7','8','9'),
  d set('1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17'),
  e set('1','2','3','4','5','6','7','8','9','10','11','12','13','14','15','16','17','18','19','20','21','22','23','24','25','26','27',
  '28','29','30','31','32','33'));
insert into sets select seq, 'b', 'a,c', '9', '17', '1,33' from seq_1_to_40;
insert into sets (id, a) select seq, if(seq % 2, 'a', null) from seq_41_to_60;
set @s = (select concat('create table enums (id int primary key, a enum(', group_concat(quote(seq)), '))') from seq_1_to_255);
execute immediate @s;
set @s = (select concat('create table enums2 (id int primary key, a enum(', group_concat(quote(seq)), '))') from seq_1_to_256);
execute immediate @s;
insert into enums select seq, seq from seq_200_to_255;
insert into enums2 select seq, seq from seq_200_to_256;

create table nets (id int primary key, a uuid, b inet4, c inet6);
insert into nets select seq, '123e4567-e89b-12d3-a456-426655440000', '1.2.3.0', '::1' from seq_1_to_20;
insert into nets select seq, uuid_short(), null, '2001:db8::' from seq_21_to_22;
insert into nets values (23, '00000000-0000-0000-0000-000000000000', '0.0.0.0', '::'), (24, null, null, null);

create table squeezed (id int primary key, a varchar(254) compressed, b varchar(255) compressed, c varchar(3000) compressed, d tinyblob compressed,
  e blob compressed, f mediumtext compressed, g longtext compressed);
insert into squeezed select seq, repeat('a', seq * 6), repeat('b', seq * 6), repeat('c', seq * 70), 'd', repeat('e', 500), '', repeat('g', seq)
  from seq_1_to_40;
insert into squeezed (id, b) select seq, '' from seq_41_to_60;

create table special (id int auto_increment primary key, a int, b int as (a + 1) stored, c int as (a + 2) virtual, d int invisible default 4,
  e timestamp(6) default '2020-01-01' on update current_timestamp(6)) auto_increment = 10;
insert into special (a) select seq from seq_1_to_30;
update special set a = a + 1;
create table versioned (id int primary key, a varchar(20)) with system versioning;
insert into versioned select seq, repeat('v', 15) from seq_1_to_30;
update versioned set a = 'w';
create table parts (id int primary key, a varchar(20)) partition by hash (id) partitions 3;
insert into parts select seq, repeat('p', 15) from seq_1_to_30;

-- More columns than these do not fit into a table definition of this server.
set @s = (select concat('create table wide (`1` tinyint', group_concat(concat(',`', lower(conv(seq, 10, 36)), '` tinyint') separator ''),
  ') engine=myisam') from seq_2_to_3000);
execute immediate @s;
insert into wide (`1`, `8`, `9`, `2bc`) values (1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12);
set @s = (select concat('insert into wide values (1', repeat(',2', 2999), ')'));
execute immediate @s;
set @s = (select concat('create table wide250 (c1 int primary key', group_concat(concat(',c', seq, ' int') separator ''), ')')
  from seq_2_to_250);
execute immediate @s;
set @s = (select concat('create table wide251 (c1 int primary key', group_concat(concat(',c', seq, ' int') separator ''), ')')
  from seq_2_to_251);
execute immediate @s;
insert into wide250 (c1, c250) select seq, seq from seq_1_to_10;
insert into wide251 (c1, c251) select seq, seq from seq_1_to_10;

set binlog_row_image = minimal;
update numbers set d = id;
update lobs set n = 2 where id > 10;
update texts set b = null, c = 'c';
delete from temporals where id > 10;
insert into lobs (id) select seq from seq_50_to_60;
create table keyless (a int, b varchar(10));
insert into keyless () values (), (), ();
update keyless set b = 'x';
set binlog_row_image = noblob;
update lobs set n = n + 1;
update lobs set f = repeat('f', 200) where id < 10;
delete from lobs where id > 30;
set binlog_row_image = full;
set global binlog_row_metadata = full;
update sets set b = 'b';
update numbers set e = 1 where id < 40;
delete from enums;
set global binlog_row_metadata = no_log;

create table log (id int auto_increment primary key, a varchar(40));
create trigger t after insert on parts for each row insert into log (a) values (repeat('t', new.id mod 40)), ('u');
insert into parts select seq, 'with log' from seq_101_to_120;
create table other (id int primary key, a int);
insert into other select seq, seq from seq_1_to_40;
update numbers, other set numbers.a = 1, other.a = 2 where numbers.id = other.id;
delete numbers, other from numbers join other using (id) where id > 20;
replace into other select seq, 9 from seq_10_to_30;
insert into other select seq, 1 from seq_1_to_50 on duplicate key update a = a + 100;
create table copy as select * from texts;
begin;
insert into other values (1001, 1);
savepoint s;
insert into other values (1002, 2), (1003, 3);
rollback to s;
insert into other values (1004, 4);
commit;

-- Two rows whose event has a body of 8189 to 8195 bytes: 14 for the rows besides their texts, 10 in front.
create table edge (id int primary key, a varchar(9000));
execute immediate 'insert into edge values (1, repeat(\'e\', 1000)), (2, repeat(\'e\', ?))' using 8191 - 1000 - 24;
execute immediate 'insert into edge values (3, repeat(\'e\', 1000)), (4, repeat(\'e\', ?))' using 8192 - 1000 - 24;
execute immediate 'insert into edge values (5, repeat(\'e\', 1000)), (6, repeat(\'e\', ?))' using 8193 - 1000 - 24;
-- The same around 256: 20 short rows of a body that ends at, below and above it.
create table small (a char(33) not null);
insert into small select repeat('s', 33) from seq_1_to_21;
create table smaller (a char(39) not null);
insert into smaller select repeat('s', 39) from seq_1_to_21;
create table edges (id int primary key, a varchar(300), b varchar(300));
insert into edges select seq, repeat('a', 108 + seq % 3), '' from seq_1_to_12;
