-- Runs once, before the primary takes connections.
CREATE USER spillway@'%' IDENTIFIED BY 'spillway';
GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO spillway@'%';
