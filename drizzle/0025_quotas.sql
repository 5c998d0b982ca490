-- Bounds on what one workspace or organization can fill the database and the object store with.

-- ---------------------------------------------------------------- rows
-- Arguments: the column whose rows are counted together, how many there may be, which of them count, and the limit's
-- name. The database's owner raises a limit with `alter database … set app.most_deployments = '50000'`. The
-- operator's own writes are not limited. What a workspace adds to its organization has a limit of the workspace
-- besides: one workspace cannot use up what all of them share.
create function within_quota() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_most bigint := coalesce(setting('most_' || tg_argv[3]), tg_argv[1])::bigint;
  v_owner uuid;
  v_count bigint;
begin
  if current_setting('role', true) is distinct from 'slipway_app' then return null; end if;
  for v_owner in execute format('select distinct %1$I from added where %1$I is not null', tg_argv[0]) loop
    execute format('select count(*) from (select from %I where %I = $1 and %s limit $2 + 1) counted',
      tg_table_name, tg_argv[0], tg_argv[2]) into v_count using v_owner, v_most;
    if v_count > v_most then perform refuse('quota_full', v_most || ' ' || replace(tg_argv[3], '_', ' ')); end if;
  end loop;
  return null;
end $$;
--> statement-breakpoint
do $$
declare q record;
begin
  for q in select * from (values
    ('workspaces', 'organization_id', 1000, 'true', 'workspaces'),
    ('roles', 'organization_id', 200, 'true', 'roles'),
    ('members', 'organization_id', 10000, 'true', 'members'),
    ('oauth_providers', 'organization_id', 1000, 'true', 'oauth_providers'),
    ('oauth_providers', 'made_by_workspace', 200, 'true', 'oauth_providers_of_a_workspace'),
    ('api_keys', 'organization_id', 10000, 'revoked_at is null and (expires_at is null or expires_at > clock())', 'api_keys'),
    -- The organization is named for the index.
    ('api_keys', 'tenant_id', 1000, 'organization_id = (select w.organization_id from workspaces w where w.id = $1)
      and revoked_at is null and (expires_at is null or expires_at > clock())', 'api_keys_of_a_workspace'),
    ('deployments', 'tenant_id', 10000, 'true', 'deployments'),
    ('integrations', 'tenant_id', 200, 'true', 'integrations'),
    ('listeners', 'tenant_id', 200, 'true', 'listeners')
  ) as quotas(place, owner, most, counts, name) loop
    execute format('create trigger %I after insert on %I referencing new table as added for each statement execute function within_quota(%L, %L, %L, %L)',
      case when q.name = q.place then 'within_quota' else 'within_workspace_quota' end, q.place, q.owner, q.most, q.counts, q.name);
  end loop;
end $$;
--> statement-breakpoint

-- ---------------------------------------------------------------- the journal
-- The counter's row also counts the events of a day, at no further cost.
alter table journals add column day date, add column today bigint not null default 0;
--> statement-breakpoint
grant update (day, today) on journals to slipway_app, slipway_agent;
--> statement-breakpoint
create function journal_day() returns date language sql stable return (clock() at time zone 'UTC')::date;
--> statement-breakpoint
-- Passes while the day has room: null is no limit.
create function journal_has_room(p_today bigint, p_most bigint) returns boolean language plpgsql stable as $$
begin
  if p_today > p_most then
    perform refuse('journal_full', ceil(extract(epoch from (journal_day() + 1)::timestamp - (clock() at time zone 'UTC')))::text);
  end if;
  return true;
end $$;
--> statement-breakpoint
-- Writes events into the journal of whoever asks, numbered in the order they are told in, as long as the day has
-- room. What the change stores counts, too: for each 4 KiB as much as one event. Otherwise changes of a mebibyte each
-- would fill the disk.
create function journal(p_types text[], p_subjects uuid[], p_data json[], p_most bigint, p_bytes bigint) returns bigint language plpgsql as $$
declare
  v_count integer := cardinality(p_subjects);
  v_seq bigint;
  v_today bigint;
begin
  insert into journals (scope_id, organization_id, seq, day, today)
    values (current_scope(), current_organization(), v_count, journal_day(), v_count + p_bytes / 4096)
    on conflict (scope_id) do update set seq = journals.seq + excluded.seq, day = excluded.day,
      today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
    returning seq, today into v_seq, v_today;
  perform journal_has_room(v_today, p_most);
  insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data)
    select current_scope(), v_seq - v_count + place, current_organization(), current_tenant(), type, subject,
      setting('actor_kind'), current_actor(), setting('request_id'), data
    from unnest(p_types, p_subjects, p_data) with ordinality told(type, subject, data, place);
  return v_seq;
end $$;
--> statement-breakpoint
-- The previous release calls this one while the migration runs.
create or replace function journal(p_types text[], p_subjects uuid[], p_data json[]) returns bigint language sql
  return journal(p_types, p_subjects, p_data, null, 0);
--> statement-breakpoint
-- For the sweep. A block range index costs an append nothing.
create index events_age on events using brin (created_at);
--> statement-breakpoint

-- ---------------------------------------------------------------- uploads
-- What an archive that is being received may come to.
alter table uploads add column reserved bigint;
--> statement-breakpoint
grant update (reserved) on uploads to slipway_app;
--> statement-breakpoint
create index uploads_of_workspace on uploads (tenant_id, state);
--> statement-breakpoint
-- Passes when so many more bytes have room. One at a time for each workspace, so that two that come at once do not
-- share the last room. An archive that broke off is counted for an hour.
create function upload_room(p_tenant uuid, p_more bigint, p_most bigint) returns boolean language plpgsql volatile cost 20000 as $$
declare
  v_used bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('uploads of ' || p_tenant, 0));
  select coalesce(sum(coalesce(size, reserved)), 0) into v_used from uploads
    where tenant_id = p_tenant and (state in ('stored', 'removing') or state = 'receiving' and used_at > clock() - interval '1 hour');
  if v_used + p_more > p_most then perform refuse('uploads_full'); end if;
  return true;
end $$;
--> statement-breakpoint
-- Passes while the workspace has fewer unused links than that.
create function upload_links_left(p_tenant uuid, p_most integer) returns boolean language plpgsql volatile cost 10000 as $$
begin
  if (select count(*) from uploads where tenant_id = p_tenant and state = 'offered' and expires_at > clock()) >= p_most then
    perform refuse('upload_links_full');
  end if;
  return true;
end $$;
--> statement-breakpoint
do $$
begin
  grant create on schema public to slipway_system;
  alter function within_quota() owner to slipway_system;
  revoke execute on function within_quota() from public;
  revoke create on schema public from slipway_system;
end $$;
--> statement-breakpoint
-- As their owner: where the database's owner is no superuser, a revoke in its own name changes nothing.
do $$
declare f regprocedure;
begin
  set local role slipway_system;
  for f in
    select p.oid from pg_proc p
    where p.prosecdef and p.pronamespace = 'public'::regnamespace and p.proowner = 'slipway_system'::regrole
  loop
    execute format('revoke execute on function %s from public', f);
  end loop;
end $$;
--> statement-breakpoint
reset role;
