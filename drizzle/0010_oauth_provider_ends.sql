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
