-- Every table: row-level security holds for the owner too, and slipway_system sees every row. The other files say what
-- the roles of requests and agents see. These roles may update every column except ids, apart from the ids that do
-- change: a row never moves to another tenant.
do $$
declare
  v_table regclass;
begin
  for v_table in
    select oid
    from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
  loop
    execute format('alter table %s enable row level security, force row level security', v_table);
    -- Rows of a partitioned partition are read by its parent.
    if not exists (select from pg_class where oid = v_table and relkind = 'p' and relispartition) then
      execute format('create policy everything on %s to slipway_system using (true) with check (true)', v_table);
      execute format('grant select, insert, update, delete on %s to slipway_system', v_table);
    end if;
  end loop;
end $$;
-- Backups read sequences.
grant select on all sequences in schema public to slipway_system;
