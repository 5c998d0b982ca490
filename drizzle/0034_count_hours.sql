-- Minutes that are long ago add up to hours, in a slot of their own: 400 days have too many minutes.
create aggregate sum_counts(integer[]) (sfunc = add_counts, stype = integer[], initcond = '{}');
create index session_minutes_to_add_up on session_minutes (minute) where slot >= 0;
