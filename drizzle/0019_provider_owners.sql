-- Who may change or delete an OAuth provider, and what a change ends. A provider belongs to the organization, so a
-- workspace that could point it to another server would receive the tokens of every other workspace there.

ALTER TABLE "oauth_providers" ADD COLUMN "made_by_workspace" uuid;--> statement-breakpoint
ALTER TABLE "oauth_providers" ADD COLUMN "client_secret_urls" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "oauth_providers" ADD CONSTRAINT "oauth_providers_made_by_workspace_workspaces_id_fk" FOREIGN KEY ("made_by_workspace") REFERENCES "public"."workspaces"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "oauth_providers_made_by_workspace" ON "oauth_providers" USING btree ("made_by_workspace");--> statement-breakpoint

-- ---------------------------------------------------------------- what was granted is bound to every endpoint
alter function oauth_binding(oauth_providers) rename to oauth_binding_before;
--> statement-breakpoint
-- Codes, access tokens and refresh tokens go only to a provider that still has the binding they were granted under.
create function oauth_binding(p oauth_providers) returns text language sql stable
  return md5(json_build_array(p.issuer, p.client_id, p.resource, p.auth_url, p.token_url, p.revocation_url, p.registration_client_uri)::text);
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
update oauth_tokens t set bound_to = oauth_binding(p) from oauth_providers p where p.id = t.provider_id and t.bound_to = oauth_binding_before(p);
update oauth_flows f set bound_to = oauth_binding(p) from oauth_providers p where p.id = f.provider_id and f.bound_to = oauth_binding_before(p);
update oauth_providers set client_secret_urls = array_remove(array[token_url, revocation_url], null) where client_secret is not null;
--> statement-breakpoint
update roles set permissions = permissions || array['organization:manage-providers']
  where scope = 'organization' and 'organization:update' = any(permissions) and not 'organization:manage-providers' = any(permissions);
--> statement-breakpoint
reset role;
--> statement-breakpoint
drop function oauth_binding_before(oauth_providers);
--> statement-breakpoint

-- ---------------------------------------------------------------- secrets stay with the addresses they were given for
-- A trigger, so that no write can forget it: a secret that stays while its endpoints change is still known to belong
-- to the old ones.
create function bind_provider_secrets() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' or new.client_secret is distinct from old.client_secret then
    new.client_secret_urls := case when new.client_secret is null then '{}' else array_remove(array[new.token_url, new.revocation_url], null) end;
  end if;
  if tg_op = 'UPDATE' and new.registration_client_uri is distinct from old.registration_client_uri
    and new.registration_access_token = old.registration_access_token then
    new.registration_access_token := null;
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger bind_provider_secrets before insert or update on oauth_providers
  for each row execute function bind_provider_secrets();
--> statement-breakpoint

-- ---------------------------------------------------------------- who may change a provider
-- Locks a provider that is about to be changed or deleted, and refuses a caller that may not. A flow or token that is
-- being written holds the provider, so it is waited for; each statement below sees what was written before.
create function lock_provider_to_change(p_provider_id text) returns void
language plpgsql volatile security definer set search_path = public, pg_temp as $$
declare
  p oauth_providers;
begin
  select * into p from oauth_providers
    where organization_id = current_organization() and provider_id = p_provider_id for update;
  if not found or 'organization:manage-providers' = any(actor_permissions()) then return; end if;
  -- Null is nobody's: neither a provider without a maker nor a caller without a workspace passes by it.
  if p.made_by_workspace is null or p.made_by_workspace is distinct from current_tenant() then
    perform refuse('provider_not_yours', 'another workspace made it');
  end if;
  if exists (select from oauth_tokens t where t.provider_id = p.id and t.tenant_id <> current_tenant() and t.revoked_at is null)
    or exists (select from oauth_flows f where f.provider_id = p.id and f.tenant_id <> current_tenant()
      and f.status in ('pending', 'answered') and f.expires_at > clock()) then
    perform refuse('provider_not_yours', 'other workspaces are connected through it');
  end if;
end $$;
--> statement-breakpoint

-- ---------------------------------------------------------------- what a change ends
-- Ends what was granted to the provider under another binding than its present one, in every workspace. `p_follows`
-- is the binding whose grants follow the provider to the present one instead: its own issuer moved its endpoints
-- within their origins.
create function settle_grants(p_provider uuid, p_follows text) returns integer
language plpgsql volatile security definer set search_path = public, pg_temp as $$
declare
  v_now text := (select oauth_binding(p) from oauth_providers p where p.id = p_provider and p.organization_id = current_organization());
  v_ended integer;
begin
  if v_now is null then return 0; end if;
  update oauth_tokens set bound_to = v_now where provider_id = p_provider and revoked_at is null and bound_to = p_follows;
  update oauth_flows set bound_to = v_now
    where provider_id = p_provider and status in ('pending', 'answered') and bound_to = p_follows;
  -- The generation, so that a refresh that is under way at the old endpoint writes nothing.
  update oauth_tokens set revoked_at = clock(), leased_until = null, generation = generation + 1
    where provider_id = p_provider and revoked_at is null and bound_to <> v_now;
  get diagnostics v_ended = row_count;
  update oauth_flows set status = 'failed', failure = 'provider_changed'
    where provider_id = p_provider and status in ('pending', 'answered') and bound_to <> v_now;
  return v_ended;
end $$;
--> statement-breakpoint
do $$
declare f text;
begin
  grant create on schema public to slipway_system;
  foreach f in array array['lock_provider_to_change(text)', 'settle_grants(uuid, text)'] loop
    execute format('alter function %s owner to slipway_system', f);
    execute format('revoke execute on function %s from public', f);
  end loop;
end $$;
--> statement-breakpoint
set local role slipway_system;
--> statement-breakpoint
-- What people granted a provider and its server can still be asked to revoke, in whichever workspace: only under the
-- present binding.
create or replace function tokens_of_provider(p_provider_id text, p_most integer) returns setof oauth_tokens
language sql stable security definer set search_path = public, pg_temp as $$
  select t.* from oauth_tokens t join oauth_providers p on p.id = t.provider_id
  where p.organization_id = current_organization() and p.provider_id = p_provider_id and t.revoked_at is null
    and t.bound_to = oauth_binding(p)
  order by t.updated_at desc limit p_most
$$;
--> statement-breakpoint
grant execute on function lock_provider_to_change(text), settle_grants(uuid, text) to slipway_app;
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
