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
--> statement-breakpoint

alter table listeners add column template_descriptions json;
grant update (template_descriptions) on listeners to slipway_agent;
--> statement-breakpoint
-- What the listeners offer that can take a deployment of this workspace: its own, and those of the platform, which it
-- cannot read.
create function offered_templates() returns table (
  name text, description text, listener_ids uuid[], is_on_platform boolean
)
language sql stable security definer set search_path = public, pg_temp as $$
  select
    t.name,
    min(l.template_descriptions ->> t.name),
    coalesce(array_agg(l.id order by l.id) filter (where l.tenant_id is not null), '{}'),
    bool_or(l.tenant_id is null)
  from listeners l
  cross join lateral unnest(l.templates) t(name)
  where l.tenant_id = current_tenant() or l.tenant_id is null
  group by t.name
$$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function offered_templates() owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function offered_templates() from public;
grant execute on function offered_templates() to slipway_app;
reset role;
