-- Keys along `created_by`: a key and what it made share one budget in each workspace, and are revoked together.

ALTER TABLE "api_keys" ADD COLUMN "budget_id" uuid;
--> statement-breakpoint
CREATE INDEX "api_keys_made_by" ON "api_keys"
  USING btree ("created_by","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);
--> statement-breakpoint
-- Of a key that another one made. The agents of a listener poll steadily: they share a budget among themselves, not
-- with the key that made theirs. What an organization's key made for a workspace has a budget of that workspace: else
-- one workspace could use up what the others and the organization need, and keep its own keys from being revoked.
create function budget_of_child(p_maker uuid, p_maker_tenant uuid, p_tenant uuid, p_listener uuid) returns uuid
language sql immutable
  return coalesce(p_listener,
    case when p_tenant is distinct from p_maker_tenant then md5(p_maker || ' ' || p_tenant)::uuid else p_maker end);
--> statement-breakpoint
-- As the role that the walls let pass.
set local role slipway_system;
--> statement-breakpoint
with recursive budgets as (
  select a.id, a.tenant_id, coalesce(a.listener_id, a.id) as budget_id
  from api_keys a
  where a.listener_id is not null or not exists (select from api_keys maker where maker.id = a.created_by)
  union all
  select a.id, a.tenant_id, budget_of_child(b.budget_id, b.tenant_id, a.tenant_id, null)
  from api_keys a
  join budgets b on b.id = a.created_by
  where a.listener_id is null)
update api_keys a
set budget_id = b.budget_id
from budgets b
where b.id = a.id;
--> statement-breakpoint
reset role;
--> statement-breakpoint

-- ---------------------------------------------------------------- how a key is made
-- A trigger, so that no way of making a key can leave it out. The maker's row stays locked until the key is there:
-- revoke_key_tree() waits for that lock and then finds the new key, or it was first and the maker is revoked.
create function inherit_budget() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_maker record;
begin
  if new.created_by is null then
    new.budget_id := coalesce(new.listener_id, new.id);
    return new;
  end if;
  select m.revoked_at, m.budget_id, m.tenant_id into v_maker from api_keys m where m.id = new.created_by for share;
  if not found then perform refuse('key_unknown'); end if;
  if v_maker.revoked_at is not null then perform refuse('key_revoked'); end if;
  new.budget_id := budget_of_child(v_maker.budget_id, v_maker.tenant_id, new.tenant_id, new.listener_id);
  return new;
end $$;
--> statement-breakpoint
create trigger inherit_budget before insert on api_keys for each row execute function inherit_budget();
--> statement-breakpoint

-- ---------------------------------------------------------------- how requests are counted
-- `rate_windows.key_id` is a budget's id: see budget_of_child(). Adds requests to the budgets
-- of keys, and returns how each budget stands; a key that may not enter is left out and spends nothing. Without a limit
-- nothing is counted: then it only tells which keys may enter.
create function count_requests(p_key_hashes text[], p_requests integer[], p_clock_offset text, p_limit integer)
returns table (key_hash text, requests integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with given as (
    select g.key_hash, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)),
  alive as (
    select a.key_hash, a.budget_id, g.requests
    from given g
    join api_keys a on a.key_hash = g.key_hash
    where a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.budget_id, clock(), sum(a.requests)::integer
    from alive a
    where p_limit is not null
    group by a.budget_id
    order by a.budget_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset)
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.budget_id;
end $$;
--> statement-breakpoint
-- Counts one request. It is the first statement of a trip and is committed before enter() is asked, so that the count
-- outlives whatever the request comes to, and no request holds the budget's row while another one of the same budget
-- runs. What is refused here is not counted.
create function count_request(p_key_hash text, p_clock_offset text, p_limit integer)
returns table (remaining integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  -- Without the row's lock, so that a flood of refusals does not queue for it.
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from api_keys a
  join rate_windows w on w.key_id = a.budget_id
  where a.key_hash = p_key_hash and a.revoked_at is null
    and w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset into v_window from count_requests(array[p_key_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $$;
--> statement-breakpoint

-- ---------------------------------------------------------------- how a key is revoked
-- Revokes a key in reach of the caller and every key that was made with it, transitively, in whichever workspace. Each
-- gets an event in the journal that it belongs to. Returns the ids; none where the key is not there or is revoked
-- already.
create function revoke_key_tree(p_key uuid) returns setof uuid
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_tree uuid[];
  v_locked uuid[] := '{}';
begin
  if not exists (
    select from api_keys a
    where a.id = p_key and a.revoked_at is null and a.organization_id = current_organization()
      and (current_tenant() is null or a.tenant_id = current_tenant())) then
    return;
  end if;
  -- A key may be on its way under any key that is not locked yet, so the tree is read again until all of it is. Locks
  -- are taken by id, so that two revocations do not wait for each other.
  loop
    v_tree := array(
      with recursive tree as (
        select p_key as id
        union
        select a.id from api_keys a join tree t on a.created_by = t.id)
      select id from tree);
    exit when v_tree <@ v_locked;
    perform from api_keys a where a.id = any(v_tree) order by a.id for no key update;
    v_locked := v_tree;
  end loop;
  return query
  with revoked as (
    update api_keys a
    set revoked_at = clock()
    where a.id = any(v_tree) and a.revoked_at is null
    returning a.id, a.organization_id, a.tenant_id, coalesce(a.tenant_id, a.organization_id) as scope_id),
  numbered as (
    insert into journals as j (scope_id, organization_id, seq)
    select r.scope_id, r.organization_id, count(*)
    from revoked r
    group by r.scope_id, r.organization_id
    order by r.scope_id
    on conflict (scope_id) do update set seq = j.seq + excluded.seq
    returning j.scope_id, j.seq),
  journaled as (
    insert into events
      (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data)
    select r.scope_id, n.seq - count(*) over same + row_number() over (same order by r.id <> p_key, r.id),
      r.organization_id, r.tenant_id, 'api_key.revoked', r.id, setting('actor_kind'), current_actor(),
      setting('request_id'),
      case when r.id = p_key then '{}'::json else json_build_object('revoked_with', p_key) end
    from revoked r
    join numbered n on n.scope_id = r.scope_id
    window same as (partition by r.scope_id))
  select r.id from revoked r;
end $$;
--> statement-breakpoint

-- Functions that see everything belong to the role that may; nobody else may call what they are not given. The rights
-- are taken and given as their new owner: by an owner of the database that is no superuser nothing would be revoked,
-- and nothing was in earlier migrations.
do $$
declare
  f text;
  caller regrole;
begin
  grant create on schema public to slipway_system;
  foreach f in array array['inherit_budget()', 'count_requests(text[], integer[], text, integer)',
    'count_request(text, text, integer)', 'revoke_key_tree(uuid)'] loop
    execute format('alter function %s owner to slipway_system', f);
  end loop;
  revoke create on schema public from slipway_system;
  set local role slipway_system;
  for f in
    select p.oid::regprocedure
    from pg_proc p
    where p.prosecdef and p.pronamespace = 'public'::regnamespace and p.proowner = 'slipway_system'::regrole
  loop
    execute format('revoke execute on function %s from public', f);
  end loop;
  -- Requests are counted by whoever may call enter().
  for caller in
    select distinct grantee
    from pg_proc p, aclexplode(p.proacl)
    where p.oid = 'enter(text, uuid, text, boolean, text, text, boolean, text, text, integer)'::regprocedure
      and grantee not in (0, p.proowner)
  loop
    execute format('grant execute on function count_request(text, text, integer) to %s', caller);
    execute format('grant execute on function count_requests(text[], integer[], text, integer) to %s', caller);
  end loop;
  grant execute on function revoke_key_tree(uuid) to slipway_app;
end $$;
--> statement-breakpoint
reset role;
