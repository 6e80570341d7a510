-- Temporal types in the format of before MariaDB 10.1, whose width a table map does not say.
set timestamp = 1700000000, sql_mode = '', time_zone = '+00:00';
create database d default charset latin1;
use d;
set global mysql56_temporal_format = off;
create table old_datetime (id int, a datetime, b datetime(6));
insert into old_datetime select seq, '2026-11-30', '2026-11-30 01:02:03.456789' from seq_1_to_30;
create table old_time (id int, a time, b time(3));
insert into old_time select seq, '11:12:13', '11:12:13.123' from seq_1_to_30;
create table old_timestamp (id int, a timestamp null, b timestamp(3) null);
insert into old_timestamp select seq, '2026-11-30', '2026-11-30 01:02:03.456' from seq_1_to_30;
set global mysql56_temporal_format = on;
create table new_temporals (id int, a date, b datetime(6));
insert into new_temporals select seq, '2026-11-30', '2026-11-30 01:02:03.456789' from seq_1_to_30;
