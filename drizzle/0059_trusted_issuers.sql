-- Issuers whose tokens a workspace exchanges for short-lived API keys (RFC 8693).

create table trusted_issuers (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  issuer text not null,
  audience text not null,
  subject text not null,
  claims jsonb default '{}' not null,
  role_id uuid not null,
  key_minutes integer default 15 not null,
  expires_at timestamptz,
  -- The key that granted the role. Without a foreign key: one that is gone has ended, and so has what it granted.
  granted_by uuid,
  last_used_at timestamptz,
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  -- Its name is the code of the error.
  constraint trusted_issuer_exists unique (tenant_id, name),
  constraint trusted_issuers_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces (id) on delete cascade,
  constraint role_in_use foreign key (role_id) references roles (id)
);
create index trusted_issuers_page on trusted_issuers (tenant_id, created_at desc, id desc);
create index trusted_issuers_role on trusted_issuers (role_id);
--> statement-breakpoint
-- Tokens that were exchanged, until they expire: each one works once. The hash is of what the issuer signed.
create table exchanged_tokens (
  token_hash text primary key not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  expires_at timestamptz not null,
  constraint exchanged_tokens_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces (id) on delete cascade
);
create index exchanged_tokens_tenant on exchanged_tokens (tenant_id);
create index exchanged_tokens_age on exchanged_tokens (expires_at);
--> statement-breakpoint

-- Without a foreign key: once the trusted issuer is gone, the key is still that of a job.
alter table api_keys add column trusted_issuer_id uuid;
create index api_keys_exchanged on api_keys (trusted_issuer_id, expires_at) where trusted_issuer_id is not null;
create index api_keys_exchanged_ended on api_keys (expires_at) where trusted_issuer_id is not null;
--> statement-breakpoint

grant create on schema public to slipway_system;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
-- Row-level security can hide the key from the caller.
create function is_grant_ended(p_key uuid, p_expires_at timestamptz) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return coalesce(p_expires_at <= clock(), false)
    or (p_key is not null and not exists (select from api_keys a where a.id = p_key and a.revoked_at is null));
end $$;
--> statement-breakpoint
create function is_own_trusted_issuer(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from trusted_issuers
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
revoke execute on function is_grant_ended(uuid, timestamptz), is_own_trusted_issuer(uuid) from public;
grant execute on function is_grant_ended(uuid, timestamptz), is_own_trusted_issuer(uuid) to slipway_app;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
--> statement-breakpoint

-- Anyone can be refused, and must not fill the journal's day: of a workspace, at most 60 refusals an hour are
-- journaled.
create function journal_refused_exchange(p_tenant uuid, p_subject uuid, p_data json, p_limit bigint) returns void
language plpgsql as $$
declare
  v_organization uuid;
  v_window constant uuid := md5('token exchange ' || p_tenant)::uuid;
  v_attempts integer;
begin
  -- First the workspace, as its deletion does.
  select w.organization_id into v_organization from workspaces w where w.id = p_tenant for key share;
  -- Without a row lock, so that a flood does not queue for it.
  if not found or exists (
    select from attempt_windows w
    where w.key_id = v_window and w.started_at > clock() - interval '1 hour' and w.attempts >= 60
  ) then
    return;
  end if;
  insert into attempt_windows as w (key_id, started_at, attempts)
  values (v_window, clock(), 1)
  on conflict (key_id) do update set
    attempts = excluded.attempts + case when w.started_at > clock() - interval '1 hour' then w.attempts else 0 end,
    started_at = case when w.started_at > clock() - interval '1 hour' then w.started_at else excluded.started_at end
  returning attempts into v_attempts;
  if v_attempts > 60 then return; end if;
  perform
    set_config('app.organization_id', v_organization::text, true),
    set_config('app.tenant_id', p_tenant::text, true),
    set_config('app.actor_kind', 'visitor', true),
    set_config('app.actor_id', '', true),
    set_config('app.actor_name', coalesce(p_data ->> 'subject', ''), true);
  begin
    perform journal(
      array['token_exchange.refused'], array[coalesce(p_subject, p_tenant)], array[p_data], array[null::json],
      p_limit, 0
    );
  exception when sqlstate 'SW000' then
    -- The journal's day is full. The caller gets the same answer as on other days.
    null;
  end;
end $$;
--> statement-breakpoint
-- A key for a token whose signature and claims were checked against this version of the trusted issuer. Otherwise the
-- reason of the refusal.
create function exchange_token(
  p_issuer uuid,
  p_version integer,
  p_token json,
  p_permissions text[],
  p_key_hash text,
  p_hint text,
  p_limit bigint
) returns json
language plpgsql as $$
declare
  v_trusted trusted_issuers;
  v_key api_keys;
  v_role_permissions text[];
begin
  -- First what the deletion of a workspace locks before the row, in the same order.
  perform from workspaces w
  where w.id = (select t.tenant_id from trusted_issuers t where t.id = p_issuer)
  for key share;
  -- The lock serializes exchanges, so that the number of keys is exact.
  select * into v_trusted from trusted_issuers t where t.id = p_issuer for no key update;
  if not found or v_trusted.version <> p_version then return json_build_object('refusal', 'issuer_changed'); end if;
  -- A revocation of the key that granted the role waits for this lock, and then finds the new key.
  perform from api_keys a where a.id = v_trusted.granted_by for share;
  if is_grant_ended(v_trusted.granted_by, v_trusted.expires_at) then
    return json_build_object('refusal', 'grant_ended');
  end if;
  select r.permissions into v_role_permissions from roles r where r.id = v_trusted.role_id;
  if not p_permissions <@ v_role_permissions then return json_build_object('refusal', 'scope_exceeds_role'); end if;
  if (
    select count(*)
    from (
      select
      from api_keys a
      where a.trusted_issuer_id = v_trusted.id and a.expires_at > clock() and a.revoked_at is null
      limit 1000
    ) active
  ) >= 1000 then
    return json_build_object('refusal', 'too_many_keys');
  end if;
  insert into exchanged_tokens (token_hash, organization_id, tenant_id, expires_at)
  values (
    p_token ->> 'hash', v_trusted.organization_id, v_trusted.tenant_id,
    to_timestamp((p_token ->> 'expires')::double precision)
  )
  on conflict do nothing;
  if not found then return json_build_object('refusal', 'token_replayed'); end if;

  perform
    set_config('app.organization_id', v_trusted.organization_id::text, true),
    set_config('app.tenant_id', v_trusted.tenant_id::text, true),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_name', p_token ->> 'subject', true);
  insert into api_keys (
    organization_id, tenant_id, trusted_issuer_id, description, hint, key_hash, role_id, permissions, expires_at,
    created_by
  )
  values (
    v_trusted.organization_id, v_trusted.tenant_id, v_trusted.id, p_token ->> 'description', p_hint, p_key_hash,
    v_trusted.role_id, p_permissions,
    least(clock() + make_interval(mins => least(v_trusted.key_minutes, 15)), v_trusted.expires_at), v_trusted.granted_by
  )
  returning * into v_key;
  -- The member whose key granted the role has lost the workspace.
  if v_key.member_id is not null and bound_key_permissions(v_key.id) is null then
    delete from api_keys where id = v_key.id;
    delete from exchanged_tokens where token_hash = p_token ->> 'hash';
    return json_build_object('refusal', 'grant_ended');
  end if;
  -- Keys that follow one another share one rate limit.
  if v_trusted.granted_by is null then
    update api_keys set budget_id = v_trusted.id where id = v_key.id;
  end if;
  update trusted_issuers set last_used_at = clock() where id = v_trusted.id;
  perform set_config('app.actor_id', v_key.id::text, true);
  perform journal(
    array['api_key.created'], array[v_key.id],
    array[json_build_object(
      'trusted_issuer_id', v_trusted.id, 'issuer', v_trusted.issuer, 'subject', p_token -> 'subject',
      'audience', v_trusted.audience, 'claims', p_token -> 'claims', 'token_id', p_token -> 'id'
    )],
    array[changed_members(null, jsonb_build_object(
      'description', v_key.description, 'role_id', v_key.role_id, 'permissions', v_key.permissions,
      'expires_at', v_key.expires_at, 'created_by', v_key.created_by, 'member_id', v_key.member_id
    ))],
    p_limit, 0
  );
  return json_build_object(
    'api_key_id', v_key.id,
    'workspace_id', v_key.tenant_id,
    'organization_id', v_key.organization_id,
    'permissions', case
      when v_key.member_id is not null then bound_key_permissions(v_key.id)
      else coalesce(v_key.permissions, v_role_permissions)
    end,
    'expires_in', floor(extract(epoch from v_key.expires_at - clock()))::integer
  );
end $$;
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on trusted_issuers to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on trusted_issuers
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '100', 'true', 'trusted_issuers');
reset role;
revoke trigger on trusted_issuers from slipway_system;
--> statement-breakpoint

do $$
declare
  v_table text;
begin
  foreach v_table in array array['trusted_issuers', 'exchanged_tokens'] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
end $$;
create policy admitted on trusted_issuers as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
create policy own on trusted_issuers to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_role(role_id)
    and is_own_key(granted_by)
  );
-- Beside the policy `own`, which other migrations replace as a whole.
create policy own_trusted_issuer on api_keys as restrictive for insert to slipway_app
  with check (is_own_trusted_issuer(trusted_issuer_id));
grant select, insert, delete, update (
    name, issuer, audience, subject, claims, role_id, key_minutes, expires_at, granted_by, last_used_at, version,
    created_at, updated_at
  ) on trusted_issuers to slipway_app;
