-- Runs once. The account tables of both servers were made by their images: only what comes after them is replicated.
CHANGE MASTER TO MASTER_HOST='spillway', MASTER_PORT=4307, MASTER_USER='repl', MASTER_PASSWORD='repl',
  MASTER_USE_GTID=slave_pos, MASTER_SSL=0;
START SLAVE;
