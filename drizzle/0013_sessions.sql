-- Sessions of people, entered in the same trip as keys.
create table sessions (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  member_id uuid,
  key_id uuid,
  owner_id uuid generated always as (coalesce(key_id, member_id)) stored not null,
  token_hash text not null,
  method text not null,
  client_address text,
  user_agent text,
  created_at timestamptz default clock() not null,
  last_seen_at timestamptz default clock() not null,
  expires_at timestamptz default clock() + interval '30 days' not null,
  revoked_at timestamptz,
  constraint sessions_token_hash unique (token_hash),
  constraint sessions_organization_id_organizations_id_fk
    foreign key (organization_id) references organizations(id) on delete cascade,
  constraint sessions_member_id_members_id_fk foreign key (member_id) references members(id) on delete cascade,
  constraint sessions_key_id_api_keys_id_fk foreign key (key_id) references api_keys(id) on delete cascade
);
create index sessions_page on sessions (owner_id, created_at desc, id desc);
create index sessions_member on sessions (member_id);
create index sessions_key on sessions (key_id);
create index sessions_organization on sessions (organization_id);
create index sessions_age on sessions (expires_at);
--> statement-breakpoint
-- A session that is idle for seven days has ended, and every session ends with its `expires_at`.
create function is_alive(p_session sessions) returns boolean
language sql stable
return p_session.revoked_at is null
  and p_session.expires_at > clock()
  and p_session.last_seen_at > clock() - interval '7 days';
--> statement-breakpoint
alter table sessions enable row level security, force row level security;
create policy everything on sessions to slipway_system using (true) with check (true);
create policy own on sessions to slipway_app
  using (
    organization_id = current_organization()
    and owner_id = current_actor()
  )
  with check (
    organization_id = current_organization()
    and owner_id = current_actor()
    and is_own_member(member_id)
    and is_own_key(key_id)
  );
grant select, insert, update, delete on sessions to slipway_system;
grant select, insert, update (revoked_at) on sessions to slipway_app;
--> statement-breakpoint

-- Who was refused: a key, or a member with a session.
alter table audit_attempts add column actor_kind text default 'key' not null;
--> statement-breakpoint
-- enter() for the token of a session. A session of a key enters as that key. A member acts with the role in the
-- organization where that role has the permission, and otherwise with the role in the workspace and inside it only.
create function enter_session(
  p_token_hash text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_session record;
  v_tenant uuid;
  v_stored record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select
    s.id, s.organization_id, s.member_id, s.last_seen_at, s.expires_at, s.revoked_at, a.key_hash,
    coalesce(m.full_name, m.email) as name,
    p_permission is null or p_permission = any(o.permissions) as is_permitted,
    coalesce(p_permission = any(w.permissions), false) as is_permitted_inside,
    wm.id is not null as is_inside
  into v_session
  from sessions s
  left join api_keys a on a.id = s.key_id
  left join members m on m.id = s.member_id
  left join roles o on o.id = m.role_id
  left join workspace_members wm on wm.member_id = s.member_id and wm.tenant_id = p_workspace
  left join roles w on w.id = wm.role_id
  where s.token_hash = p_token_hash;
  -- As in is_alive(), which would cost a call.
  if not found or v_session.revoked_at is not null or v_session.expires_at <= clock()
    or v_session.last_seen_at <= clock() - interval '7 days'
  then
    perform refuse('session_ended');
  end if;

  -- As for keys: at most once a minute, without waiting, and not journaled.
  if v_session.last_seen_at < clock() - interval '1 minute' then
    update sessions s
    set last_seen_at = clock()
    where s.id = (select b.id from sessions b where b.id = v_session.id for update skip locked);
  end if;
  perform set_config('app.session_id', v_session.id::text, true);
  if v_session.key_hash is not null then
    return query
    select e.organization_id, e.tenant_id, e.actor_id
    from enter(
      v_session.key_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset,
      p_without_if_match, p_idempotency_key, p_fingerprint
    ) e;
    return;
  end if;

  if p_workspace is null and p_in_workspace then perform refuse('workspace_required'); end if;
  if p_workspace is not null and not v_session.is_inside and not exists (
    select from workspaces w where w.id = p_workspace and w.organization_id = v_session.organization_id
  ) then
    perform refuse('workspace_forbidden');
  end if;
  if v_session.is_permitted then
    v_tenant := case when p_in_workspace then p_workspace end;
  elsif v_session.is_permitted_inside then
    v_tenant := p_workspace;
  else
    if p_workspace is null and exists (
      select from workspace_members wm
      join roles r on r.id = wm.role_id
      where wm.member_id = v_session.member_id and p_permission = any(r.permissions)
    ) then
      perform refuse('workspace_required');
    end if;
    perform refuse('permission_missing', p_permission);
  end if;
  if p_without_if_match and exists (select from workspaces w where w.id = v_tenant and w.require_if_match) then
    perform refuse('if_match_required');
  end if;

  perform
    set_config('app.organization_id', v_session.organization_id::text, true),
    set_config('app.tenant_id', coalesce(v_tenant::text, ''), true),
    set_config('app.actor_kind', 'session', true),
    set_config('app.actor_id', v_session.member_id::text, true),
    set_config('app.actor_name', v_session.name, true),
    set_config('app.request_id', p_request_id, true);

  if p_idempotency_key is not null then
    if not pg_try_advisory_xact_lock(hashtextextended(v_session.member_id || ':' || p_idempotency_key, 0)) then
      perform refuse('idempotency_in_flight');
    end if;
    select i.fingerprint, i.result, i.created_at
    into v_stored
    from idempotency_keys i
    where i.actor_id = v_session.member_id and i.key = p_idempotency_key;
    if found and v_stored.created_at < clock() - interval '24 hours' then
      delete from idempotency_keys i
      where i.actor_id = v_session.member_id and i.key = p_idempotency_key;
    elsif found and v_stored.fingerprint <> p_fingerprint then
      perform refuse('idempotency_key_reused');
    elsif found then
      raise exception using errcode = 'SW001', message = 'replay', detail = v_stored.result::text;
    end if;
  end if;
  return query select v_session.organization_id, v_tenant, v_session.member_id;
end $$;
--> statement-breakpoint
-- The budgets that valid keys and sessions spend. A member has one for all sessions.
create function budgets_of(p_hashes text[]) returns table (hash text, budget_id uuid)
language sql stable as $$
  select a.key_hash, a.budget_id
  from api_keys a
  where a.key_hash = any(p_hashes) and a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
  union all
  select s.token_hash, coalesce(a.budget_id, s.member_id)
  from sessions s
  left join api_keys a on a.id = s.key_id
  where s.token_hash = any(p_hashes) and is_alive(s)
$$;
--> statement-breakpoint
-- A member's rights: those of its role in the organization, with those of its role in the workspace, if one is given.
create function member_permissions(p_member uuid, p_tenant uuid) returns text[]
language sql stable security definer set search_path = public, pg_temp as $$
  select array_agg(distinct permission)
  from (
    select unnest(r.permissions) as permission
    from members m
    join roles r on r.id = m.role_id
    where m.id = p_member
    union all
    select unnest(r.permissions)
    from workspace_members m
    join roles r on r.id = m.role_id
    where m.member_id = p_member and m.tenant_id = p_tenant
  ) granted
$$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function enter_session(text, uuid, text, boolean, text, text, boolean, text, text) owner to slipway_system;
alter function member_permissions(uuid, uuid) owner to slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
revoke execute on function
  enter_session(text, uuid, text, boolean, text, text, boolean, text, text),
  member_permissions(uuid, uuid)
  from public;
do $$
begin
  execute format(
    'grant execute on function enter_session(text, uuid, text, boolean, text, text, boolean, text, text)
      to slipway_login, %I',
    session_user
  );
end $$;
--> statement-breakpoint
-- count_requests() and count_request() for callers that may be sessions too. Keys keep theirs, which are faster.
create function count_requests_of_callers(
  p_key_hashes text[],
  p_requests integer[],
  p_clock_offset text,
  p_limit integer
) returns table (key_hash text, requests integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with alive as (
    select g.key_hash, b.budget_id, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)
    join budgets_of(p_key_hashes) b on b.hash = g.key_hash
  ),
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
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.budget_id;
end $$;
--> statement-breakpoint
create function count_session_request(p_token_hash text, p_clock_offset text, p_limit integer)
returns table (remaining integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  -- Without a row lock, so a flood of refused requests does not queue for it.
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from budgets_of(array[p_token_hash]) b
  join rate_windows w on w.key_id = b.budget_id
  where w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset
  into v_window
  from count_requests_of_callers(array[p_token_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $$;
--> statement-breakpoint
revoke execute on function
  count_requests_of_callers(text[], integer[], text, integer),
  count_session_request(text, text, integer)
  from public;
do $$
begin
  execute format(
    'grant execute on function
      count_requests_of_callers(text[], integer[], text, integer), count_session_request(text, text, integer)
      to slipway_login, %I',
    session_user
  );
end $$;
--> statement-breakpoint
-- The next functions replace those of the same name, for callers that may be sessions too.
create or replace function actor_permissions() returns text[]
language sql stable security definer set search_path = public, pg_temp as $$
  select
    case
      when setting('actor_kind') = 'session' then member_permissions(current_actor(), current_tenant())
      else (
        select
          case
            when a.permissions is null then r.permissions
            else array(select unnest(r.permissions) intersect select unnest(a.permissions))
          end
        from api_keys a
        join roles r on r.id = a.role_id
        where a.id = current_actor()
      )
    end
$$;
--> statement-breakpoint
-- A session of a key counts as that key, and a member has one count for all sessions.
create or replace function record_attempts(
  p_key_hashes text[],
  p_workspaces text[],
  p_operations text[],
  p_statuses integer[],
  p_codes text[],
  p_request_ids text[],
  p_requests text[],
  p_more integer[],
  p_clock_offset text,
  p_limit integer
) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  with given as (
    select
      c.id as key_id,
      c.kind,
      c.name,
      c.organization_id,
      coalesce(
        c.tenant_id,
        (select w.id from workspaces w where w.id = g.workspace::uuid and w.organization_id = c.organization_id)
      ) as tenant_id,
      g.*,
      row_number() over (partition by c.id order by g.place) as nth,
      count(*) over (partition by c.id) as of_key
    from unnest(p_key_hashes, p_workspaces, p_operations, p_statuses, p_codes, p_request_ids, p_requests, p_more)
      with ordinality as g(key_hash, workspace, operation, status, code, request_id, request, more, place)
    join lateral (
      select 'key' as kind, a.id, a.organization_id, a.tenant_id, a.description as name
      from api_keys a
      where a.key_hash = g.key_hash
      union all
      select
        case when a.id is null then 'session' else 'key' end,
        s.owner_id,
        s.organization_id,
        a.tenant_id,
        coalesce(a.description, m.full_name, m.email)
      from sessions s
      left join api_keys a on a.id = s.key_id
      left join members m on m.id = s.member_id
      where s.token_hash = g.key_hash
    ) c on true
  ),
  counted as (
    insert into attempt_windows as w (key_id, started_at, attempts)
    select key_id, clock(), count(*)
    from given
    group by key_id
    order by key_id
    on conflict (key_id) do update set
      attempts = excluded.attempts
        + case when w.started_at > clock() - interval '60 seconds' then w.attempts else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.attempts
  ),
  judged as (
    select g.*, c.attempts - g.of_key + g.nth <= p_limit as is_kept
    from given g
    join counted c using (key_id)
  ),
  left_out as (
    select key_id, sum(case when is_kept then more else more + 1 end) as attempts
    from judged
    group by key_id
  ),
  added_to_earlier as (
    update audit_attempts t
    set left_out = t.left_out + l.attempts
    from left_out l
    where not exists (select from judged j where j.key_id = l.key_id and j.is_kept)
      and t.id = (
        select b.id
        from audit_attempts b
        where b.actor_id = l.key_id
        order by b.created_at desc, b.id desc
        limit 1
      )
  )
  insert into audit_attempts (
    organization_id, tenant_id, operation, status, code, actor_kind, actor_id, actor_name, request_id, request,
    left_out
  )
  select
    j.organization_id,
    j.tenant_id,
    j.operation,
    j.status,
    j.code,
    j.kind,
    j.key_id,
    j.name,
    j.request_id,
    j.request::json,
    case when j.nth = max(j.nth) over (partition by j.key_id) then l.attempts else 0 end
  from judged j
  join left_out l using (key_id)
  where j.is_kept
  order by j.place;
end $$;
--> statement-breakpoint
-- Columns that name an actor hold the id of a key or of a member.
create or replace function is_own_key(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null
    or not exists (
      select from api_keys
      where id = p_id and organization_id is distinct from current_organization()
    )
    and not exists (
      select from members
      where id = p_id and organization_id is distinct from current_organization()
    );
end $$;
--> statement-breakpoint
-- The keys that a member creates share one budget in each workspace, as those of an organization key do.
create or replace function inherit_budget() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_creator record;
begin
  if new.created_by is null then
    new.budget_id := case
      when setting('actor_kind') = 'session' and current_actor() is not null
        then budget_of_child_key(current_actor(), null, new.tenant_id, new.listener_id)
      else coalesce(new.listener_id, new.id)
    end;
    return new;
  end if;
  select m.revoked_at, m.budget_id, m.tenant_id
  into v_creator
  from api_keys m
  where m.id = new.created_by
  for share;
  if not found then perform refuse('key_unknown'); end if;
  if v_creator.revoked_at is not null then perform refuse('key_revoked'); end if;
  new.budget_id := budget_of_child_key(v_creator.budget_id, v_creator.tenant_id, new.tenant_id, new.listener_id);
  return new;
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
--> statement-breakpoint
-- For a member, the role in the current workspace, or else the role in the organization.
create or replace function default_key_role(p_scope text) returns uuid
language sql stable as $$
  select case when p_scope = 'key' or r.scope = 'workspace' then r.id else '00000000-0000-4000-8000-000000000001' end
  from roles r
  where r.id = case
    when setting('actor_kind') <> 'session' then (actor_key()).role_id
    else coalesce(
      (
        select m.role_id
        from workspace_members m
        where p_scope = 'workspace' and m.member_id = current_actor() and m.tenant_id = current_tenant()
      ),
      (select m.role_id from members m where m.id = current_actor())
    )
  end
$$;
--> statement-breakpoint

-- Links that sign a member in once, within fifteen minutes.
create table sign_in_links (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  member_id uuid not null,
  token_hash text not null,
  expires_at timestamptz default clock() + interval '15 minutes' not null,
  used_at timestamptz,
  created_at timestamptz default clock() not null,
  constraint sign_in_links_token_hash unique (token_hash),
  constraint sign_in_links_organization_id_organizations_id_fk
    foreign key (organization_id) references organizations(id) on delete cascade,
  constraint sign_in_links_member_id_members_id_fk foreign key (member_id) references members(id) on delete cascade
);
create index sign_in_links_organization on sign_in_links (organization_id);
create index sign_in_links_member on sign_in_links (member_id);
create index sign_in_links_age on sign_in_links (expires_at);
--> statement-breakpoint
alter table sign_in_links enable row level security, force row level security;
create policy everything on sign_in_links to slipway_system using (true) with check (true);
create policy own on sign_in_links to slipway_app
  using (organization_id = current_organization())
  with check (
    organization_id = current_organization()
    and is_own_member(member_id)
  );
grant select, insert, update, delete on sign_in_links to slipway_system;
grant select, insert on sign_in_links to slipway_app;
--> statement-breakpoint
-- Whoever makes a link for a member can act as that member, so it needs every permission that the member has.
create function require_signable_member(p_member uuid) returns uuid
language plpgsql stable as $$
begin
  perform require_member(p_member);
  perform require_grantable_permissions(array(
    select unnest(r.permissions)
    from members m
    join roles r on r.id = m.role_id
    where m.id = p_member
    union
    select unnest(r.permissions)
    from workspace_members m
    join roles r on r.id = m.role_id
    where m.member_id = p_member
  ));
  return p_member;
end $$;
--> statement-breakpoint
-- For scheduled and sign-in work: the rest of the transaction acts as the member.
create function act_as_member(p_member uuid) returns void
language sql as $$
  select
    set_config('app.organization_id', m.organization_id::text, true),
    set_config('app.tenant_id', '', true),
    set_config('app.actor_kind', 'session', true),
    set_config('app.actor_id', m.id::text, true),
    set_config('app.actor_name', coalesce(m.full_name, m.email), true)
  from members m
  where m.id = p_member
$$;
--> statement-breakpoint
create function open_session(p_member uuid, p_token_hash text, p_method text, p_limit bigint) returns sessions
language plpgsql as $$
declare
  v_session sessions;
begin
  perform act_as_member(p_member);
  insert into sessions (organization_id, member_id, token_hash, method, client_address, user_agent)
  values (
    current_organization(), p_member, p_token_hash, p_method,
    setting('request')::json ->> 'client_address', setting('request')::json ->> 'user_agent'
  )
  returning * into v_session;
  perform journal(
    array['session.opened'], array[v_session.id], array[json_build_object('method', p_method)],
    array[changed_members(null, jsonb_build_object('method', p_method, 'expires_at', v_session.expires_at))],
    p_limit, 0
  );
  return v_session;
end $$;
--> statement-breakpoint
-- Null if there is no such link, if it was used, or if it has expired.
create function use_sign_in_link(p_link_hash text, p_token_hash text, p_limit bigint) returns sessions
language plpgsql as $$
declare
  v_link sign_in_links;
begin
  select * into v_link from sign_in_links where token_hash = p_link_hash for update;
  if not found then return null; end if;
  if v_link.used_at is not null or v_link.expires_at <= clock() then
    perform act_as_member(v_link.member_id);
    perform journal(
      array['session.refused'], array[v_link.member_id],
      array[json_build_object(
        'method', 'link', 'reason', case when v_link.used_at is null then 'expired' else 'used' end
      )],
      array[null::json], p_limit, 0
    );
    return null;
  end if;
  update sign_in_links set used_at = clock() where id = v_link.id;
  return open_session(v_link.member_id, p_token_hash, 'link', p_limit);
end $$;
--> statement-breakpoint

-- Who a member is at an identity provider. Bound when the member first signs in there, and never changed.
create table identities (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  member_id uuid not null,
  issuer text not null,
  subject text not null,
  created_at timestamptz default clock() not null,
  constraint identities_subject unique (issuer, subject, organization_id),
  constraint identities_member unique (member_id, issuer),
  constraint identities_organization_id_organizations_id_fk
    foreign key (organization_id) references organizations(id) on delete cascade,
  constraint identities_member_id_members_id_fk foreign key (member_id) references members(id) on delete cascade
);
create index identities_organization on identities (organization_id);
--> statement-breakpoint
alter table identities enable row level security, force row level security;
create policy everything on identities to slipway_system using (true) with check (true);
grant select, insert, update, delete on identities to slipway_system;
--> statement-breakpoint
create function journal_of_member(p_member uuid, p_type text, p_data json, p_changes json, p_limit bigint) returns void
language plpgsql as $$
begin
  perform act_as_member(p_member);
  perform journal(array[p_type], array[p_member], array[p_data], array[p_changes], p_limit, 0);
end $$;
--> statement-breakpoint
create function journal_of_identity(p_member uuid, p_issuer text, p_subject text, p_limit bigint) returns void
language sql as $$
  select journal_of_member(
    p_member, 'identity.bound', json_build_object('issuer', p_issuer, 'subject', p_subject),
    changed_members(null, jsonb_build_object('issuer', p_issuer, 'subject', p_subject)), p_limit
  )
$$;
--> statement-breakpoint
-- Signs in the person that an identity provider vouches for. A bound subject is enough. Otherwise the verified address
-- has to be a member's, or of a domain whose people may join `p_join`. With the first of `p_roles` that the
-- organization has, the member gets that role. Returns the session, or why there is none.
create function sign_in_by_identity(
  p_issuer text,
  p_subject text,
  p_email text,
  p_is_verified boolean,
  p_name text,
  p_join uuid,
  p_roles uuid[],
  p_token_hash text,
  p_limit bigint
) returns json
language plpgsql as $$
declare
  v_found record;
  v_member uuid;
  v_role uuid;
  v_changes json;
begin
  for v_found in
    select m.id, m.organization_id
    from members m
    where p_is_verified and m.email = p_email
      and not exists (select from identities i where i.member_id = m.id and i.issuer = p_issuer)
    order by m.id
    for no key update
  loop
    insert into identities (organization_id, member_id, issuer, subject)
    values (v_found.organization_id, v_found.id, p_issuer, p_subject)
    on conflict do nothing;
    if found then
      perform journal_of_identity(v_found.id, p_issuer, p_subject, p_limit);
    end if;
  end loop;

  -- Of several organizations, the one where the person was last signed in.
  select i.member_id
  into v_member
  from identities i
  join members m on m.id = i.member_id
  where i.issuer = p_issuer and i.subject = p_subject
  order by (select max(s.created_at) from sessions s where s.member_id = m.id) desc nulls last, m.created_at, m.id
  limit 1;

  if not found then
    select m.id into v_member from members m where m.email = p_email order by m.created_at limit 1;
    if found then
      perform journal_of_member(
        v_member, 'session.refused',
        json_build_object(
          'method', 'oidc', 'reason', case when p_is_verified then 'other_subject' else 'email_unverified' end,
          'issuer', p_issuer, 'subject', p_subject
        ),
        null, p_limit
      );
      return json_build_object('refusal', case when p_is_verified then 'identity_unknown' else 'email_unverified' end);
    end if;
    if not p_is_verified then return json_build_object('refusal', 'email_unverified'); end if;
    if p_join is null or not exists (select from organizations where id = p_join) then
      return json_build_object('refusal', 'identity_unknown');
    end if;
    insert into members (organization_id, email, full_name, role_id)
    values (p_join, p_email, p_name, '00000000-0000-4000-8000-000000000005')
    on conflict (organization_id, email) do update set email = excluded.email
    returning id, changed_members(null, jsonb_build_object('email', email, 'full_name', full_name, 'role_id', role_id))
    into v_member, v_changes;
    insert into identities (organization_id, member_id, issuer, subject)
    values (p_join, v_member, p_issuer, p_subject)
    on conflict do nothing;
    perform journal_of_member(v_member, 'member.added', json_build_object('email', p_email), v_changes, p_limit);
    perform journal_of_identity(v_member, p_issuer, p_subject, p_limit);
  end if;

  select r.id
  into v_role
  from unnest(p_roles) with ordinality as given(id, place)
  join members m on m.id = v_member
  join roles r on r.id = given.id and r.scope = 'organization'
    and (r.organization_id is null or r.organization_id = m.organization_id)
  order by given.place
  limit 1;
  select changed_members(jsonb_build_object('role_id', role_id), jsonb_build_object('role_id', v_role))
  into v_changes
  from members
  where id = v_member and role_id <> v_role
  for no key update;
  if found then
    begin
      update members
      set role_id = v_role, version = version + 1, updated_at = clock()
      where id = v_member;
      perform journal_of_member(v_member, 'member.updated', json_build_object('role_id', v_role), v_changes, p_limit);
    exception when sqlstate 'SW000' then
      -- The last Admin of the organization keeps the role, whatever the groups are.
      null;
    end;
  end if;
  return json_build_object('session', open_session(v_member, p_token_hash, 'oidc', p_limit));
end $$;
