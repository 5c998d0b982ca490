CREATE TABLE "followed_repositories" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"integration_id" uuid NOT NULL,
	"repo_key" text NOT NULL,
	"url" text NOT NULL,
	"host_id" text,
	"heard_at" timestamp with time zone,
	"compared_at" timestamp with time zone,
	"next_compare_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"error" text,
	"webhook_id" text,
	"webhook_error" text,
	"etags" json DEFAULT '{}'::json NOT NULL,
	"followers" text,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "followed_repositories_one" UNIQUE("integration_id","repo_key")
);
--> statement-breakpoint
CREATE TABLE "store_points" (
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"store" text NOT NULL,
	"seconds" integer NOT NULL,
	"at" timestamp with time zone NOT NULL,
	"bytes" bigint,
	"connections" bigint,
	CONSTRAINT "store_points_deployment_id_seconds_at_store_pk" PRIMARY KEY("deployment_id","seconds","at","store")
);
--> statement-breakpoint
CREATE TABLE "commit_statuses" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"sha" text NOT NULL,
	"revision_id" uuid NOT NULL,
	"notified_state" text,
	"attempts" integer DEFAULT 0 NOT NULL,
	"next_attempt_at" timestamp with time zone DEFAULT clock() NOT NULL,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "commit_statuses_one" UNIQUE("deployment_id","sha")
);
--> statement-breakpoint
ALTER TABLE "integrations" ADD COLUMN "problem" json;--> statement-breakpoint
ALTER TABLE "previews" ADD COLUMN "end_reason" text;--> statement-breakpoint
ALTER TABLE "previews" ADD COLUMN "pending_sha" text;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD CONSTRAINT "followed_repositories_integration_id_integrations_id_fk"
  FOREIGN KEY ("integration_id") REFERENCES "public"."integrations"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
ALTER TABLE "store_points" ADD CONSTRAINT "store_points_deployment_id_deployments_id_fk"
  FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
ALTER TABLE "commit_statuses" ADD CONSTRAINT "commit_statuses_deployment_id_deployments_id_fk"
  FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
CREATE INDEX "followed_repositories_id" ON "followed_repositories" USING btree ("integration_id","host_id");
--> statement-breakpoint
CREATE INDEX "followed_repositories_due" ON "followed_repositories" USING btree ("next_compare_at");
--> statement-breakpoint
CREATE INDEX "store_points_age" ON "store_points" USING btree ("seconds","at");--> statement-breakpoint
CREATE INDEX "commit_statuses_due" ON "commit_statuses" USING btree ("next_attempt_at");--> statement-breakpoint
CREATE INDEX "commit_statuses_age" ON "commit_statuses" USING btree ("created_at");--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on integrations from slipway_app;
revoke all on previews from slipway_app;
alter table commit_statuses enable row level security, force row level security;
create policy admitted on commit_statuses as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = commit_statuses.deployment_id)))))
  with check (true);
create policy everything on commit_statuses to slipway_system
  using (true)
  with check (true);
create policy own on commit_statuses to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND
    is_own_deployment(deployment_id) AND is_own_revision(revision_id)));
grant insert, select, update (revision_id, notified_state, attempts, next_attempt_at) on commit_statuses to slipway_app;
grant delete, insert, select, update on commit_statuses to slipway_system;
create or replace function keep_cleared_stores()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  v_before text[] := stores_of((old.source_config -> 'resource_spec')::jsonb);
  v_after text[] := stores_of((new.source_config -> 'resource_spec')::jsonb)
    || planned_stores(new.id, new.active_revision_id);
begin
  new.cleared_stores := array(
    select distinct s
    from unnest(old.cleared_stores || v_before) s
    where s <> all (v_after)
    order by s
    limit 200
  );
  return new;
end $function$;
alter table followed_repositories enable row level security, force row level security;
create policy admitted on followed_repositories as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on followed_repositories to slipway_system
  using (true)
  with check (true);
create policy own on followed_repositories to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND
    is_own_integration(integration_id)));
grant select on followed_repositories to slipway_app;
grant delete, insert, select, update on followed_repositories to slipway_system;
grant delete, insert, select, update (host, base_url, app_id, installation_id, account_id, name, state,
  credentials, token, token_expires_at, version, created_at, updated_at, problem) on integrations to slipway_app;
grant delete, insert, select, update (number, state, deployment_id, branch, head_sha, fork, approved_sha,
  approved_by, changed_at, expires_at, notified_state, comment_id, notify_attempts, next_notify_at, created_at,
  updated_at, commit, end_reason, pending_sha) on previews to slipway_app;
alter table store_points enable row level security, force row level security;
create policy admitted on store_points as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = store_points.deployment_id)))))
  with check (true);
create policy everything on store_points to slipway_system
  using (true)
  with check (true);
create policy own on store_points to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on store_points to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = store_points.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = store_points.deployment_id) AND (d.listener_id = current_listener()) AND
    (d.tenant_id = store_points.tenant_id) AND (d.organization_id = store_points.organization_id)))));
grant insert, select, update (bytes, connections) on store_points to slipway_agent;
grant select on store_points to slipway_app;
grant delete, insert, select, update on store_points to slipway_system;
create or replace function deploy_push(p_deployment uuid, p_revision uuid, p_refs text[],
  p_queried_at timestamp with time zone, p_commit json, p_ignores_build_on_push boolean, p_data json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_sha text := p_commit ->> 'sha';
  v_stored deployments;
  v_head deployment_heads;
  v_next deployments;
  v_changed deployments;
  v_queued record;
  v_message text;
  v_held revisions;
  v_outcome text := 'unchanged';
  v_events new_event[] := '{}';
begin
  select d.*
  into v_stored
  from deployments d
  where d.id = p_deployment and d.tenant_id = current_tenant() and d.deleting_at is null
    and (p_ignores_build_on_push or (d.source_config ->> 'build_on_push') = 'true')
    and d.source_revision_config ->> 'repo_ref' = any(p_refs)
  for update;
  if not found then return; end if;
  select h.* into v_head from deployment_heads h where h.deployment_id = v_stored.id and h.tenant_id = current_tenant();
  if v_head.queried_at >= p_queried_at then return; end if;

  v_next := v_stored;
  v_changed := v_stored;
  v_next.source_revision_config :=
    v_stored.source_revision_config::jsonb || jsonb_build_object('repo_commit_sha', v_sha);
  if v_stored.source_revision_config ->> 'repo_commit_sha' is distinct from v_sha then
    v_message := held_back_message(v_stored, v_sha);
    if v_message is null then
      v_outcome := 'created';
      v_next.hold := null;
      select * into v_queued from queue_revision(v_stored, v_next, p_revision, '{pushed}', v_stored.source, p_commit);
      v_changed := v_queued.changed;
      v_events := v_queued.events;
      if v_stored.hold is not null then
        v_events := v_events || (
          'deployment.hold_released',
          v_stored.id,
          '{}',
          changed_members(jsonb_build_object('hold', v_stored.hold), jsonb_build_object('hold', v_changed.hold))
        )::new_event;
      end if;
    elsif not exists (
      select from revisions r
      where r.deployment_id = v_stored.id and r.tenant_id = current_tenant()
        and r.number = v_stored.revisions and 'held' = any(r.reasons) and r.commit ->> 'sha' = v_sha
    ) then
      v_outcome := 'held_back';
      update deployments d
      set revisions = v_stored.revisions + 1
      where d.id = v_stored.id and d.tenant_id = current_tenant()
      returning d.* into v_changed;
      v_next.revisions := v_changed.revisions;
      -- Recorded as a skipped revision, which is never the deployment's latest.
      v_held := insert_revision(
        p_revision, v_next, 'SKIPPED', v_message, '{pushed, held}', v_stored.source, p_commit, null, clock()
      );
      v_events := array[(
        'revision.created',
        v_held.id,
        json_build_object('deployment_id', v_stored.id, 'status', v_held.status, 'message', v_message),
        changed_members(null, recorded_revision(v_held))
      )::new_event];
    end if;
  end if;
  if v_outcome = 'created' and v_stored.parent_deployment_id is null then
    insert into commit_statuses (organization_id, tenant_id, deployment_id, sha, revision_id)
    values (v_stored.organization_id, v_stored.tenant_id, v_stored.id, v_sha, p_revision)
    on conflict (deployment_id, sha) do update
      set revision_id = excluded.revision_id, attempts = 0, next_attempt_at = clock();
  end if;
  if v_outcome <> 'unchanged' then
    v_events := deployment_event('deployment.pushed', v_stored, v_changed, p_data) || v_events;
  end if;
  if v_head.gone_ref is not null then
    v_events := v_events || (
      'deployment.ref_found', v_stored.id, json_build_object('ref', v_head.gone_ref), null
    )::new_event;
  end if;

  insert into deployment_heads (deployment_id, organization_id, tenant_id, queried_at)
  values (v_stored.id, v_stored.organization_id, v_stored.tenant_id, p_queried_at)
  on conflict (deployment_id) do update set queried_at = excluded.queried_at, gone_ref = null;
  answer := to_json(v_outcome);
  has_webhooks := conclude_write(to_json(v_changed), v_events, p_request);
  return next;
end $function$;
set local role slipway_system;
create or replace function job_obstacle(d deployments, p_process text, p_action jsonb DEFAULT NULL::jsonb)
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_policy json := (select l.policy from listeners l where l.id = d.listener_id);
  v_processes json;
begin
  if p_action is null and d.active_revision_id is null then return 'nothing_serves'; end if;
  if p_action is not null and not coalesce(
    (v_policy -> 'features')::jsonb ? snapshot_feature(p_action ->> 'store'), false
  ) then
    return 'snapshots_not_supported';
  end if;
  if p_action ? 'at' and not coalesce((v_policy -> 'features')::jsonb ? 'database_history', false) then
    return 'history_not_supported';
  end if;
  if v_policy ->> 'jobs' is distinct from 'true' then return 'jobs_not_supported'; end if;
  if p_process is not null and v_policy ->> 'job_processes' is distinct from 'true' then
    return 'process_not_supported';
  end if;
  if p_process <> 'web' then
    v_processes := (
      select r.build_plan -> 'processes' from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id
    );
    if json_typeof(v_processes) = 'array'
      and p_process not in ('queue', 'orchestrator', 'executor')
      and not exists (select from json_array_elements(v_processes) p where p ->> 'name' = p_process) then
      return 'process_unknown';
    end if;
  end if;
  return null;
end $function$;
reset role;
create or replace function move_repository(p_integration uuid, p_key text, p_url text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments[] := array(
    select d
    from deployments d
    where d.repo_key = p_key and d.tenant_id = current_tenant()
      and d.source_config ->> 'integration_id' = p_integration::text
      and d.deleting_at is null
    order by d.id
    for update
  );
  v_changed deployments[];
begin
  if cardinality(v_stored) = 0 then return; end if;
  with changed as (
    update deployments d
    set
      source_config = jsonb_set(d.source_config::jsonb, '{repo_url}', to_jsonb(p_url))::json,
      version = d.version + 1,
      updated_at = greatest(clock(), d.updated_at)
    from unnest(v_stored) s
    where d.id = s.id and d.tenant_id = current_tenant()
    returning d
  )
  select array_agg((c.d)::deployments order by (c.d).id) into v_changed from changed c;
  answer := to_json(cardinality(v_changed));
  has_webhooks := conclude_writes(
    array(select to_json(c) from unnest(v_changed) c),
    array(
      select deployment_event('deployment.repository_moved', s, c, json_build_object('repo_url', p_url))
      from unnest(v_stored) s
      join unnest(v_changed) c on c.id = s.id
      order by c.id
    ),
    p_request
  );
  return next;
end $function$;
create or replace function planned_stores(p_deployment uuid, p_revision uuid)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_plan jsonb := (
    select r.build_plan from revisions r where r.id = p_revision and r.deployment_id = p_deployment
  );
begin
  return array(
    select 'disk:' || (g.disk ->> 'name')
    from jsonb_array_elements(nullif(v_plan -> 'disks', 'null')) g(disk)
    union
    select 'database' where v_plan ->> 'kind' = 'graphs'
  );
end $function$;
create or replace function require_allowed_action(d deployments, p_action jsonb)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_store text := p_action ->> 'store';
  v_listener uuid;
  v_kind text;
begin
  if not v_store = any(
    stores_of((d.source_config -> 'resource_spec')::jsonb) || planned_stores(d.id, d.active_revision_id)
  ) then
    perform refuse('store_not_found', v_store);
  end if;
  if p_action ->> 'snapshot_id' is not null then
    select s.listener_id, split_part(s.store, ':', 1)
    into v_listener, v_kind
    from snapshots s
    where s.id = (p_action ->> 'snapshot_id')::uuid and s.tenant_id = current_tenant() and s.deleting_at is null;
    if not found then perform refuse('snapshot_not_found'); end if;
    if v_kind <> split_part(v_store, ':', 1) then
      perform refuse('store_not_found', format('a snapshot of a %s cannot become a %s', v_kind, v_store));
    end if;
  elsif p_action ->> 'from_deployment_id' is not null then
    select o.listener_id
    into v_listener
    from deployments o
    where o.id = (p_action ->> 'from_deployment_id')::uuid and o.tenant_id = current_tenant();
    if not found then perform refuse('deployment_not_found'); end if;
  else
    return;
  end if;
  if v_listener is distinct from d.listener_id then perform refuse('snapshot_elsewhere'); end if;
end $function$;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
