CREATE TABLE "tunnels" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"revision_id" uuid NOT NULL,
	"listener_id" uuid NOT NULL,
	"is_terminal" boolean NOT NULL,
	"request" json,
	"actor_kind" text DEFAULT setting('actor_kind') NOT NULL,
	"actor_id" uuid DEFAULT current_actor(),
	"actor_name" text DEFAULT event_actor_name(),
	"expires_at" timestamp with time zone NOT NULL,
	"instance" text,
	"address" text,
	"joined_at" timestamp with time zone,
	"offered_at" timestamp with time zone,
	"opened_at" timestamp with time zone,
	"fence" bigint,
	"seen_at" timestamp with time zone,
	"bytes_in" bigint DEFAULT 0 NOT NULL,
	"bytes_out" bigint DEFAULT 0 NOT NULL,
	"ended_at" timestamp with time zone,
	"end_reason" text,
	"exit_code" integer,
	"exit_signal" text,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "tunnels" ADD CONSTRAINT "tunnels_tenant_id_workspaces_id_fk"
  FOREIGN KEY ("tenant_id") REFERENCES "public"."workspaces"("id")
  ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "tunnels_open" ON "tunnels" USING btree ("tenant_id") WHERE ended_at is null;--> statement-breakpoint
CREATE INDEX "tunnels_of_listener" ON "tunnels"
  USING btree ("listener_id") WHERE ended_at is null;--> statement-breakpoint
CREATE INDEX "tunnels_ended" ON "tunnels" USING btree ("ended_at") WHERE ended_at is not null;--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
alter table tunnels enable row level security, force row level security;
create policy admitted on tunnels as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = tunnels.deployment_id)))))
  with check (true);
create policy everything on tunnels to slipway_system
  using (true)
  with check (true);
create policy made on tunnels as restrictive for insert to slipway_app
  with check ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = tunnels.deployment_id)
    AND (d.tenant_id = current_tenant())
    AND (d.active_revision_id = tunnels.revision_id)
    AND (d.listener_id = tunnels.listener_id)))));
create policy own on tunnels to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())
    AND is_own_deployment(deployment_id)
    AND is_own_key(actor_id)));
create policy served on tunnels to slipway_agent
  using ((listener_id = current_listener()));
grant select, update (offered_at, opened_at, fence) on tunnels to slipway_agent;
grant insert, select, update (instance, address, joined_at, seen_at, bytes_in, bytes_out) on tunnels to slipway_app;
grant delete, insert, select, update on tunnels to slipway_system;
set local role slipway_system;
create or replace function is_lease_held(p_listener uuid, p_fence bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
RETURN (EXISTS (SELECT FROM listeners l
  WHERE ((l.id = is_lease_held.p_listener) AND (l.fence = is_lease_held.p_fence) AND (l.lease_expires_at > clock()))));
reset role;
create or replace function is_tunnel_waiting(p_tunnel tunnels)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (((p_tunnel).joined_at IS NOT NULL)
  AND ((p_tunnel).opened_at IS NULL)
  AND ((p_tunnel).ended_at IS NULL)
  AND (((p_tunnel).offered_at IS NULL) OR ((p_tunnel).offered_at < (clock() - '00:00:10'::interval))));
create or replace function offer_tunnels(p_limit integer)
 RETURNS json
 LANGUAGE sql
 SET plan_cache_mode TO 'force_generic_plan'
BEGIN ATOMIC
 WITH offered AS (
          UPDATE tunnels t SET offered_at = clock()
           WHERE (t.id IN ( SELECT w.id
                    FROM tunnels w
                   WHERE ((w.listener_id = current_listener()) AND (w.ended_at IS NULL) AND is_tunnel_waiting(w.*))
                   ORDER BY w.joined_at
                  LIMIT offer_tunnels.p_limit))
           RETURNING t.id,
             t.deployment_id,
             t.revision_id,
             t.is_terminal,
             t.request,
             t.joined_at
         )
  SELECT COALESCE(json_agg(json_build_object('id', o.id, 'deployment_id', o.deployment_id,
         'revision_id', o.revision_id,
         'terminal',
         CASE
             WHEN o.is_terminal THEN o.request
             ELSE NULL::json
         END, 'forward',
         CASE
             WHEN (NOT o.is_terminal) THEN o.request
             ELSE NULL::json
         END) ORDER BY o.joined_at), '[]'::json) AS "coalesce"
    FROM offered o;
END;
set local role slipway_system;
create or replace function require_tunnel_room(
  p_tenant uuid, p_listener uuid, p_features text[], p_tenant_limit integer, p_listener_limit integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER COST 20000
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners;
  v_missing text;
begin
  select l.* into v_listener from listeners l where l.id = p_listener;
  if not found or v_listener.lease_expires_at is null or v_listener.lease_expires_at <= clock() then
    perform refuse('agent_absent');
  end if;
  select f into v_missing
  from unnest(p_features) f
  where f not in (select json_array_elements_text(coalesce(v_listener.policy -> 'tunnels', '[]')));
  if found then perform refuse('tunnel_unsupported', v_missing); end if;
  perform pg_advisory_xact_lock(hashtextextended('tunnels of ' || p_tenant, 0));
  if (select count(*) from tunnels t where t.tenant_id = p_tenant and t.ended_at is null) >= p_tenant_limit
    or (select count(*) from tunnels t where t.listener_id = p_listener and t.ended_at is null) >= p_listener_limit
  then
    perform refuse('tunnels_full');
  end if;
  return true;
end $function$;
reset role;
set local role slipway_system;
revoke execute on function is_lease_held(uuid, bigint) from public;
grant execute on function is_lease_held(uuid, bigint) to slipway_app;
reset role;
set local role slipway_system;
revoke execute on function require_tunnel_room(uuid, uuid, text[], integer, integer) from public;
grant execute on function require_tunnel_room(uuid, uuid, text[], integer, integer) to slipway_app;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
--> statement-breakpoint
-- Written by hand from here. The built-in admins may open terminals. Custom roles get the permission from their admins.
set local role slipway_system;
--> statement-breakpoint
update roles
set permissions = permissions || '{deployments:exec}', version = version + 1
where id in ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000004')
  and not permissions @> '{deployments:exec}';
--> statement-breakpoint
reset role;
