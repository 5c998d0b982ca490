-- Row-level security of OAuth providers and what belongs to them, and who may hand out tokens.

do $$
declare t text;
begin
  foreach t in array array['oauth_providers', 'oauth_reservations', 'oauth_flows', 'oauth_tokens'] loop
    execute format('alter table %I enable row level security, force row level security', t);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', t);
    execute format('grant select, insert, update, delete on %I to slipway_app, slipway_system', t);
  end loop;
end $$;
--> statement-breakpoint
create policy own on oauth_providers to slipway_app using (organization_id = current_organization());
create policy own on oauth_reservations to slipway_app using (organization_id = current_organization());
create policy own on oauth_flows to slipway_app using (tenant_id = current_tenant());
create policy own on oauth_tokens to slipway_app using (tenant_id = current_tenant());
--> statement-breakpoint
-- Whoever changes deployments may connect people to providers and hand out their tokens.
set local role slipway_system;
--> statement-breakpoint
update roles set permissions = permissions || array['tokens:use']
  where 'deployments:update' = any(permissions) and not 'tokens:use' = any(permissions);
--> statement-breakpoint
reset role;
--> statement-breakpoint
-- What a provider is to those who were connected through it. When it changes, codes and refresh tokens of before go nowhere.
-- An issuer may move its endpoints; where none is known, the token endpoint is all that there is to go by.
create function oauth_binding(p oauth_providers) returns text language sql stable
  return md5(json_build_array(coalesce(p.issuer, p.token_url), p.client_id, p.resource)::text);

--> statement-breakpoint
-- What people granted a provider, in whichever workspace of the organisation: deleting the provider ends all of it.
create function tokens_of_provider(p_provider_id text, p_most integer) returns setof oauth_tokens
language sql stable security definer set search_path = public, pg_temp as $$
  select t.* from oauth_tokens t join oauth_providers p on p.id = t.provider_id
  where p.organization_id = current_organization() and p.provider_id = p_provider_id and t.revoked_at is null
  order by t.updated_at desc limit p_most
$$;
--> statement-breakpoint
-- It sees every workspace, so it belongs to the role that may, and only the app may call it.
do $$
begin
  grant create on schema public to slipway_system;
  alter function tokens_of_provider(text, integer) owner to slipway_system;
  revoke execute on function tokens_of_provider(text, integer) from public;
  revoke create on schema public from slipway_system;
end $$;
--> statement-breakpoint
set local role slipway_system;
grant execute on function tokens_of_provider(text, integer) to slipway_app;
reset role;
