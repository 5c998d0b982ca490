-- The events about one resource, in their order. The primary key serves every other filter by passing over events.
create index events_of_subject on events (subject_id, scope_id, seq);
--> statement-breakpoint
-- The number of the first event of a workspace at or after a time, or the next number. A search by halves: times grow
-- with numbers, but for the seconds that a transaction waits for the journal.
create function first_event_since(p_scope uuid, p_time timestamptz) returns bigint
language plpgsql stable as $$
declare
  v_before bigint := 0;
  v_since bigint := coalesce((select seq from journals where scope_id = p_scope), 0) + 1;
  v_middle bigint;
  v_at timestamptz;
begin
  while v_since - v_before > 1 loop
    v_middle := (v_before + v_since) / 2;
    select created_at into v_at from events where scope_id = p_scope and seq >= v_middle order by seq limit 1;
    if v_at < p_time then v_before := v_middle; else v_since := v_middle; end if;
  end loop;
  return v_since;
end $$;
