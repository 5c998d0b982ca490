-- The states that a revision has been in, and since when. Null for a revision that last moved before this migration.
alter table revisions add column states json;
--> statement-breakpoint
-- A trigger, so that no writer can forget it, nor the previous release.
create function record_revision_state() returns trigger
language plpgsql as $$
declare
  v_before jsonb := '[]';
begin
  if tg_op = 'UPDATE' then
    v_before := coalesce(old.states::jsonb, jsonb_build_object('status', old.status, 'since', old.status_since));
  end if;
  new.states := v_before || jsonb_build_array(jsonb_build_object('status', new.status, 'since', new.status_since));
  return new;
end $$;
--> statement-breakpoint
create trigger record_first_state
  before insert on revisions
  for each row execute function record_revision_state();
create trigger record_next_state
  before update of status on revisions
  for each row when (old.status is distinct from new.status)
  execute function record_revision_state();
--> statement-breakpoint

-- A keyed hash of a sealed value, to find out whether a value that is sent again is the same. The key is not in the
-- database. Null for a value that was stored before this migration.
alter table deployment_secrets add column fingerprint text;
