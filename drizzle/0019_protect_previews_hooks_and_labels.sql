CREATE TABLE "deploy_hooks" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"name" text NOT NULL,
	"token_hash" text NOT NULL,
	"refs" text[] NOT NULL,
	"last_used_at" timestamp with time zone,
	"window_at" timestamp with time zone,
	"window_uses" integer DEFAULT 0 NOT NULL,
	"last_key" text,
	"last_revision_id" uuid,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "deploy_hook_name_taken" UNIQUE("deployment_id","name"),
	CONSTRAINT "deploy_hooks_token" UNIQUE("token_hash")
);
--> statement-breakpoint
CREATE TABLE "host_labels" (
	"listener_id" uuid NOT NULL,
	"label" text NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"revision_id" uuid,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL,
	CONSTRAINT "host_labels_listener_id_label_pk" PRIMARY KEY("listener_id","label")
);
--> statement-breakpoint
CREATE TABLE "protection_bypasses" (
	"id" uuid PRIMARY KEY DEFAULT gen_random_uuid() NOT NULL,
	"organization_id" uuid NOT NULL,
	"tenant_id" uuid NOT NULL,
	"deployment_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"description" text NOT NULL,
	"token_hash" text NOT NULL,
	"expires_at" timestamp with time zone,
	"created_at" timestamp with time zone DEFAULT clock() NOT NULL
);
--> statement-breakpoint
ALTER TABLE "previews" ALTER COLUMN "number" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "previews" ALTER COLUMN "head_sha" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "deployments" ADD COLUMN "protection" json;--> statement-breakpoint
ALTER TABLE "followed_repositories" ADD COLUMN "branch_heads" json;--> statement-breakpoint
ALTER TABLE "preview_policies" ADD COLUMN "kinds" text[] DEFAULT '{"pull_requests"}' NOT NULL;--> statement-breakpoint
ALTER TABLE "preview_policies" ADD COLUMN "inherited_secrets" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "preview_policies" ADD COLUMN "protection" json;--> statement-breakpoint
ALTER TABLE "preview_policies" ADD COLUMN "database" json;--> statement-breakpoint
ALTER TABLE "previews" ADD COLUMN "kind" text DEFAULT 'pull_request' NOT NULL;--> statement-breakpoint
ALTER TABLE "previews" ADD COLUMN "request" json;--> statement-breakpoint
ALTER TABLE "previews" ADD COLUMN "problem" text;--> statement-breakpoint
ALTER TABLE "deploy_hooks" ADD CONSTRAINT "deploy_hooks_deployment_id_deployments_id_fk"
  FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
ALTER TABLE "host_labels" ADD CONSTRAINT "host_labels_listener_id_listeners_id_fk"
  FOREIGN KEY ("listener_id") REFERENCES "public"."listeners"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
ALTER TABLE "host_labels" ADD CONSTRAINT "host_labels_deployment_id_deployments_id_fk"
  FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
ALTER TABLE "protection_bypasses" ADD CONSTRAINT "protection_bypasses_deployment_id_deployments_id_fk"
  FOREIGN KEY ("deployment_id") REFERENCES "public"."deployments"("id") ON DELETE cascade ON UPDATE no action;
--> statement-breakpoint
CREATE INDEX "deploy_hooks_page" ON "deploy_hooks"
  USING btree ("deployment_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);
--> statement-breakpoint
CREATE INDEX "host_labels_deployment" ON "host_labels" USING btree ("deployment_id");--> statement-breakpoint
CREATE INDEX "protection_bypasses_page" ON "protection_bypasses"
  USING btree ("deployment_id","created_at" DESC NULLS FIRST,"id" DESC NULLS FIRST);
--> statement-breakpoint
CREATE INDEX "protection_bypasses_expiry" ON "protection_bypasses" USING btree ("expires_at")
  WHERE expires_at is not null;
--> statement-breakpoint
CREATE UNIQUE INDEX "previews_of_branch" ON "previews" USING btree ("parent_id","branch") WHERE number is null;
--> statement-breakpoint
set local check_function_bodies = off;
grant create on schema public to slipway_system;
revoke all on deployments from slipway_app;
revoke all on preview_policies from slipway_app;
revoke all on previews from slipway_app;
alter table deploy_hooks enable row level security, force row level security;
create policy admitted on deploy_hooks as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = deploy_hooks.deployment_id)))))
  with check (true);
create policy everything on deploy_hooks to slipway_system
  using (true)
  with check (true);
create policy own on deploy_hooks to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND
    is_own_deployment(deployment_id)));
grant delete, insert, select, update (last_used_at, window_at, window_uses, last_key,
  last_revision_id) on deploy_hooks to slipway_app;
grant delete, insert, select, update on deploy_hooks to slipway_system;
set local role slipway_system;
create or replace function claim_deployment_labels()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if new.listener_id is null or new.deleting_at is not null then return null; end if;
  perform claim_host_label(new, deployment_labels(new.name, new.id), 'deployment');
  perform claim_commit_label(new, r) from revisions r where r.id = new.latest_revision_id;
  return null;
end $function$;
reset role;
CREATE TRIGGER claim_labels_on_insert AFTER INSERT ON public.deployments FOR EACH ROW
  EXECUTE FUNCTION claim_deployment_labels();
CREATE TRIGGER claim_labels_on_update AFTER UPDATE OF listener_id ON public.deployments
  FOR EACH ROW WHEN ((new.listener_id IS DISTINCT FROM old.listener_id)) EXECUTE FUNCTION claim_deployment_labels();
grant delete, insert, select, update (name, name_fold, source, deployment_type, status, image_version,
  tag_value_ids, source_config, source_revision_config, secrets, secret_references, generation, acknowledged,
  remote_reconciled, revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id,
  hold, preview, repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path,
  version, created_at, updated_at, trace_key_version, owner, reported_health, health_reason, incidents,
  incidents_due, dormant_parts, health_processes, local_url, protection) on deployments to slipway_app;
alter table host_labels enable row level security, force row level security;
create policy admitted on host_labels as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments d
  WHERE (d.id = host_labels.deployment_id)))))
  with check (true);
create policy everything on host_labels to slipway_system
  using (true)
  with check (true);
create policy own on host_labels for select to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on host_labels for select to slipway_agent
  using ((listener_id = current_listener()));
grant select on host_labels to slipway_agent;
grant select on host_labels to slipway_app;
grant delete, insert, select, update on host_labels to slipway_system;
grant delete, insert, select, update (branches, ttl_seconds, max, forks, secrets, resource_spec, on_create,
  on_delete, hook_secret, version, created_at, updated_at, kinds, inherited_secrets, protection,
  database) on preview_policies to slipway_app;
grant delete, insert, select, update (number, state, deployment_id, branch, head_sha, fork, approved_sha,
  approved_by, changed_at, expires_at, notified_state, comment_id, notify_attempts, next_notify_at, created_at,
  updated_at, commit, end_reason, pending_sha, kind, request, problem) on previews to slipway_app;
alter table protection_bypasses enable row level security, force row level security;
create policy admitted on protection_bypasses as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = protection_bypasses.deployment_id)))))
  with check (true);
create policy everything on protection_bypasses to slipway_system
  using (true)
  with check (true);
create policy own on protection_bypasses to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND
    is_own_deployment(deployment_id)));
create policy served on protection_bypasses for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = protection_bypasses.deployment_id) AND (d.listener_id = current_listener())))));
grant select on protection_bypasses to slipway_agent;
grant delete, insert, select on protection_bypasses to slipway_app;
grant delete, insert, select, update on protection_bypasses to slipway_system;
set local role slipway_system;
create or replace function claim_revision_label()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform claim_commit_label(d, new)
  from deployments d
  where d.id = new.deployment_id and d.parent_deployment_id is not null;
  return null;
end $function$;
reset role;
CREATE TRIGGER claim_label_on_insert AFTER INSERT ON public.revisions
  FOR EACH ROW WHEN (((new.commit IS NOT NULL) AND (new.status <> 'SKIPPED'::text)))
  EXECUTE FUNCTION claim_revision_label();
create or replace function adopt_deployments(p_listener listeners)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if p_listener.tenant_id is not null then return; end if;
  update deployments d
  set listener_id = p_listener.id
  where d.id in (
    select c.id
    from deployments c
    where c.listener_id is null
      and may_serve(p_listener, c.protection)
    order by c.id
    limit 100
    for update skip locked
  );
end $function$;
set local role slipway_system;
create or replace function claim_commit_label(d deployments, r revisions)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_sha text := r.commit ->> 'sha';
  v_label text := (
    select h.label
    from host_labels h
    where h.deployment_id = d.id and h.kind = 'deployment' and h.listener_id = d.listener_id
  );
begin
  if v_sha is null or v_label is null or d.parent_deployment_id is null then return; end if;
  if length(v_label) > 54 then
    v_label := rtrim(left(v_label, 45), '-') || '-' || left(md5(v_label), 8);
  end if;
  perform claim_host_label(d, array[left(v_sha, 7) || '--' || v_label], 'commit', r.id);
  -- The newest are kept: all of them go to the agent with each change.
  delete from host_labels h
  where h.deployment_id = d.id and h.kind = 'commit'
    and h.label not in (
      select n.label
      from host_labels n
      where n.deployment_id = d.id and n.kind = 'commit'
      order by n.created_at desc, n.label
      limit 20
    );
end $function$;
reset role;
set local role slipway_system;
create or replace function claim_host_label(d deployments, p_labels text[], p_kind text,
  p_revision uuid DEFAULT NULL::uuid)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_label text;
begin
  if d.listener_id is null then return null; end if;
  foreach v_label in array p_labels loop
    insert into host_labels as h (listener_id, label, organization_id, tenant_id, deployment_id, kind, revision_id)
    values (d.listener_id, v_label, d.organization_id, d.tenant_id, d.id, p_kind, p_revision)
    on conflict (listener_id, label) do update
      set
        deployment_id = excluded.deployment_id,
        kind = excluded.kind,
        revision_id = excluded.revision_id,
        created_at = excluded.created_at
      where h.tenant_id = excluded.tenant_id
        and (
          h.deployment_id = excluded.deployment_id and h.kind = excluded.kind
          or exists (select from deployments o where o.id = h.deployment_id and o.deleting_at is not null)
        );
    if found then return v_label; end if;
  end loop;
  return null;
end $function$;
reset role;
create or replace function create_bypass(p_deployment uuid, p_new json, p_sealed text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments := lock_deployment(p_deployment);
  b protection_bypasses;
begin
  if d.id is null or d.deleting_at is not null then return; end if;
  if (select count(*) from protection_bypasses o where o.deployment_id = d.id and o.tenant_id = d.tenant_id) >= 50 then
    perform refuse('bypasses_full');
  end if;
  insert into protection_bypasses (
    organization_id, tenant_id, deployment_id, kind, description, token_hash, expires_at
  )
  values (
    d.organization_id,
    d.tenant_id,
    d.id,
    p_new ->> 'kind',
    p_new ->> 'description',
    p_new ->> 'token_hash',
    (p_new ->> 'expires_at')::timestamptz
  )
  returning * into b;
  perform tell_bypasses(d.id);
  answer := to_jsonb(b) || jsonb_build_object('url', d.url, 'sealed', p_sealed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'bypass.created', b.id, json_build_object('deployment_id', d.id), changed_members(null, recorded_bypass(b))
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function create_preview(p_deployment uuid, p_revision uuid, p_new json, p_read previews,
  p_max integer, p_column json, p_commit json, p_url text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_parent deployments := lock_deployment(p_read.parent_id);
  v_preview previews;
  v_inserted record;
begin
  if p_new ->> 'source' = 'githost' then
    perform require_active_integration((p_new -> 'source_config' ->> 'integration_id')::uuid);
  end if;
  if not exists (
    select from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.id = p_read.id
      and v.state <> 'ended'
      and (v.head_sha, v.deployment_id, v.approved_sha, v.kind, v.request::jsonb)
        is not distinct from
        (p_read.head_sha, p_read.deployment_id, p_read.approved_sha, p_read.kind, p_read.request::jsonb)
  ) then
    perform refuse('preview_moved');
  end if;
  if (
    select count(*)
    from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.id <> p_read.id and v.state <> 'ended' and v.deployment_id is not null
  ) >= p_max then
    perform refuse('previews_full');
  end if;

  select *
  into v_inserted
  from insert_deployment(
    p_deployment,
    p_revision,
    p_new,
    p_listener => v_parent.listener_id,
    p_parent => v_parent,
    p_preview => p_column,
    p_commit => p_commit
  );
  -- A branch with a pull request is at its own label, too.
  perform claim_host_label(
    v_inserted.created, array(select json_array_elements_text(p_new -> 'branch_labels')), 'branch'
  )
  where p_new ->> 'branch_labels' is not null;
  update previews v
  set
    state = 'live',
    deployment_id = p_deployment,
    expires_at = (p_column ->> 'expires_at')::timestamptz,
    updated_at = clock()
  where v.parent_id = v_parent.id and v.tenant_id = current_tenant() and v.id = p_read.id
  returning v.* into v_preview;
  insert into preview_hooks (organization_id, tenant_id, preview_id, url, parent_id, secret, body)
  select
    h.organization_id, h.tenant_id, v_preview.id, h.on_create, h.id, h.hook_secret,
    preview_hook_body(v_preview, 'preview.created', p_url)
  from preview_policies h
  where h.id = v_parent.id and h.tenant_id = current_tenant()
    and h.on_create is not null and h.hook_secret is not null;
  answer := to_json(v_inserted.created);
  has_webhooks := conclude_write(answer, v_inserted.events, p_request);
  return next;
end $function$;
create or replace function deployment_labels(p_name text, p_id uuid)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY[p_name, (("left"(p_name, 54) || '-'::text) || "left"((p_id)::text, 8)), (("left"(p_name,
  26) || '-'::text) || (p_id)::text)];
create or replace function insert_deployment(p_id uuid, p_revision uuid, p_new json,
  p_listener uuid DEFAULT NULL::uuid, p_parent deployments DEFAULT NULL::deployments,
  p_preview json DEFAULT NULL::json, p_commit json DEFAULT NULL::json, OUT created deployments,
  OUT events new_event[])
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_source text := p_new ->> 'source';
  v_config json := p_new -> 'source_revision_config';
  v_lacks_artifact boolean := lacks_artifact(v_source, v_config);
  v_revision revisions;
begin
  -- This is one statement, whose triggers lock the journal and a cursor at its end.
  with inserted as (
    insert into deployments (
      id, organization_id, tenant_id, name, source, deployment_type, status, source_config, source_revision_config,
      image_version, secrets, secret_references, tag_value_ids, parent_deployment_id, preview, owner, protection,
      listener_id, latest_revision_id, in_flight_revision_id, waiting_revision_id
    )
    values (
      p_id,
      current_organization(),
      current_tenant(),
      p_new ->> 'name',
      v_source,
      p_new -> 'source_config' ->> 'deployment_type',
      case when (p_new ->> 'has_database')::boolean then 'AWAITING_DATABASE' else 'READY' end,
      p_new -> 'source_config',
      v_config,
      image_version(v_config ->> 'image_uri'),
      (
        select coalesce(json_agg(json_build_object('name', s ->> 'name', 'version', 1) order by place), '[]')
        from json_array_elements(p_new -> 'secrets') with ordinality sent(s, place)
      ),
      p_new -> 'secret_references',
      coalesce(p_parent.tag_value_ids, '{}'),
      p_parent.id,
      p_preview,
      p_new ->> 'owner',
      nullif((p_new -> 'protection')::jsonb, 'null')::json,
      p_listener,
      p_revision,
      case when not v_lacks_artifact then p_revision end,
      case when v_lacks_artifact then p_revision end
    )
    returning *
  ),
  project as (
    insert into projects (organization_id, tenant_id, deployment_id, name)
    select i.organization_id, i.tenant_id, i.id, i.name from inserted i
  ),
  sealed as (
    insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed, fingerprint)
    select i.organization_id, i.tenant_id, i.id, s.name, 1, s.sealed, s.fingerprints ->> 0
    from inserted i
    cross join json_to_recordset(p_new -> 'secrets') s(name text, sealed text, fingerprints json)
  )
  select i.* into created from inserted i;
  v_revision := insert_revision(
    p_revision,
    created,
    case when v_lacks_artifact then 'CREATING' else start_state(v_source) end,
    null,
    '{created}',
    v_source,
    p_commit,
    null,
    created.updated_at
  );
  events := array[
    (
      'deployment.created',
      created.id,
      '{}',
      changed_members(
        null,
        recorded_deployment(created)
          || jsonb_build_object('owner', created.owner, 'protection', created.protection)
      )
    )::new_event,
    created_event(v_revision)
  ];
end $function$;
create or replace function list_protection(d deployments)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  select json_build_object(
    'open_paths', d.protection -> 'open_paths',
    'bypasses', (
      select coalesce(
        json_agg(json_build_object('kind', b.kind, 'hash', b.token_hash, 'expires_at', b.expires_at) order by b.id),
        '[]'
      )
      from protection_bypasses b
      where b.deployment_id = d.id and coalesce(b.expires_at > clock(), true)
    )
  )
$function$;
create or replace function may_serve(p_listener listeners, p_protection json)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_protection ->> 'mode'::text) IS DISTINCT
  FROM 'members'::text) OR COALESCE(((((p_listener).policy)::jsonb -> 'features'::text) @> '"protection"'::jsonb),
  false));
create or replace function move_preview(p_deployment uuid, p_preview uuid, p_column json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_changed deployments;
begin
  update previews v
  set state = 'live', expires_at = (p_column ->> 'expires_at')::timestamptz, updated_at = clock()
  where v.id = p_preview and v.tenant_id = current_tenant()
    and v.head_sha is not distinct from p_column ->> 'head_sha'
    and v.state <> 'ended';
  update deployments d
  set
    preview = p_column,
    version = d.version + 1,
    updated_at = greatest(clock(), d.updated_at)
  where d.id = v_stored.id and d.tenant_id = current_tenant()
    and d.deleting_at is null
    and d.preview ->> 'head_sha' is distinct from p_column ->> 'head_sha'
  returning d.* into v_changed;
  if not found then return; end if;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[deployment_event(
      'deployment.preview_moved',
      v_stored,
      v_changed,
      json_build_object('number', p_column -> 'number', 'branch', p_column -> 'branch')
    )],
    p_request
  );
  return next;
end $function$;
create or replace function preview_hook_body(p_preview previews, p_type text, p_url text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return json_build_object(
    'type', p_type,
    'timestamp', clock(),
    'data', json_build_object(
      'preview_id', p_preview.id,
      'kind', p_preview.kind,
      'number', p_preview.number,
      'branch', p_preview.branch,
      'head_sha', p_preview.head_sha,
      'fork', p_preview.fork,
      'deployment_id', p_preview.deployment_id,
      'parent_deployment_id', p_preview.parent_id,
      'url', p_url
    )
  );
end $function$;
create or replace function read_changes(p_listener listeners, p_cursor bigint, p_digest text, p_page_size integer,
  p_daily_limit bigint)
 RETURNS TABLE(latest bigint, digest text, resync boolean, more boolean, changes json)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_events tenant_event[];
begin
  select coalesce(max(c.seq), 0), lpad(to_hex(coalesce(max(c.digest), 0)), 16, '0')
  into latest, digest
  from sync_cursors c
  where c.listener_id = p_listener.id;
  resync := p_cursor is null or p_cursor > latest or (p_cursor = latest and coalesce(p_digest <> digest, false));
  more := false;
  changes := '[]';

  if resync or p_cursor < latest then
    with page as (
      select i.deployment_id, i.generation, i.seq
      from sync_items i
      where i.listener_id = p_listener.id
        and i.seq > case when resync then 0 else p_cursor end
        -- Later ones come with the next poll: they were not committed when the digest was read.
        and i.seq <= latest
      order by i.seq
      -- One more than a page, to know whether there is another page.
      limit p_page_size + 1
    ),
    wanted as (
      select
        p.*,
        case when d.id is not null then json_build_object(
          'tenant_id', d.tenant_id,
          'name', d.name,
          'deployment_type', d.deployment_type,
          'source_config', d.source_config,
          'trace_key_version', d.trace_key_version,
          -- Kubernetes ran the parts of a deployment before the other engines did.
          'dormant_parts', case
            when p_listener.policy ->> 'engine' in ('process', 'container') then d.dormant_parts
          end,
          'cleared_stores', coalesce(d.cleared_stores, '{}'),
          'protection', case when d.protection ->> 'mode' = 'members' then list_protection(d) end,
          'host_labels', (
            select json_agg(
              json_build_object('label', b.label, 'revision_id', b.revision_id)
              order by b.kind <> 'deployment', b.created_at desc, b.label
            )
            from host_labels b
            where b.deployment_id = d.id and b.listener_id = d.listener_id
          ),
          -- The workspace owns the host and has proved it. A listener of its own that is not public needs no proof.
          'custom_url', case
            when h.verified_at is not null
              or h.tenant_id = p_listener.tenant_id and not p_listener.verified_hosts_only
              then d.source_config ->> 'custom_url'
          end,
          'absent', d.deleting_at is not null
        ) end as deployment,
        -- The revision in flight; or the latest, if it was lost when its listener fell silent: the agent continues it.
        case when s.is_served then coalesce(d.in_flight_revision_id, l.id) end as revision_id,
        case when s.is_served then d.active_revision_id end as serving_id
      from (select * from page order by seq limit p_page_size) p
      left join deployments d on d.id = p.deployment_id and d.listener_id = p_listener.id
      left join custom_hosts h on h.host = d.custom_host and h.tenant_id = d.tenant_id
      left join revisions l on l.id = d.latest_revision_id and l.status = 'UNKNOWN'
      -- An agent that was replaced by one of an earlier release ends what it cannot protect.
      cross join lateral (select d.deleting_at is null and may_serve(p_listener, d.protection) as is_served) s
    ),
    opened as (
      select
        r.*,
        (
          select json_agg(json_build_object('name', s.name, 'sealed', s.sealed))
          from json_to_recordset(r.secrets) w(name text, version integer)
          join deployment_secrets s
            on s.deployment_id = r.deployment_id and s.name = w.name and s.version = w.version
        ) as sealed,
        (
          select json_build_object('id', u.id, 'size', u.size, 'sha256', u.sha256)
          from uploads u
          where u.object_path = r.source_revision_config ->> 'source_tarball_path'
            and u.tenant_id = r.tenant_id
            and u.state = 'stored'
        ) as archive
      from revisions r
      where r.id in (select w.revision_id from wanted w union select w.serving_id from wanted w)
    ),
    described as (
      select
        o.id,
        json_build_object(
          'id', o.id,
          'number', o.number,
          'status', o.status,
          'status_since', o.status_since,
          'source', o.source,
          'source_config', o.source_config,
          'source_revision_config', o.source_revision_config,
          'secret_references', o.secret_references,
          'sealed', o.sealed,
          'archive', o.archive
        ) as json
      from opened o
    )
    select
      (select count(*) > p_page_size from page),
      coalesce(json_agg(
        json_build_object(
          'deployment_id', w.deployment_id,
          'generation', w.generation,
          'seq', w.seq,
          'deployment', w.deployment,
          'revision', f.json,
          'serving', a.json
        )
        order by w.seq
      ), '[]'),
      array(
        select (
          o.tenant_id,
          o.organization_id,
          'revision.secrets_revealed',
          o.id,
          json_build_object('deployment_id', o.deployment_id, 'fence', p_listener.fence),
          null
        )::tenant_event
        from opened o
        where o.sealed is not null
      )
    into more, changes, v_events
    from wanted w
    left join described f on f.id = w.revision_id
    left join described a on a.id = w.serving_id;
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  -- This comes last, because it locks cursors. An adopted deployment is a change for the next poll.
  perform adopt_deployments(p_listener);
  return next;
end $function$;
create or replace function recorded_bypass(b protection_bypasses)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select jsonb_build_object('kind', b.kind, 'description', b.description, 'expires_at', b.expires_at)
$function$;
create or replace function require_listener_allows(p_listener uuid, p_needs jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  v_refused text;
begin
  with possible as (
    select l.policy::jsonb as policy
    from listeners l
    where (l.id = p_listener and (l.tenant_id = current_tenant() or l.tenant_id is null))
      or (p_listener is null and l.tenant_id is null)
  ),
  most as (
    select
      max((p.policy ->> 'max_copies')::integer) as copies,
      max((p.policy ->> 'max_disk_gi')::integer) as disk_gi
    from possible p
  )
  select string_agg(
    case n.needs
      when 'copies' then format('%s (at most %s)', n.path, m.copies)
      when 'disk_size' then format('%s (at most %s)', n.path, m.disk_gi)
      when 'feature' then format('%s (%s)', n.path, n.hint)
      when 'told_feature' then format('%s (%s)', n.path, n.hint)
      else n.path
    end,
    ', '
    order by n.place
  )
  into v_refused
  from rows from (
    jsonb_to_recordset(p_needs) as (path text, needs text, value jsonb, hint text)
  ) with ordinality n(path, needs, value, hint, place)
  cross join most m
  where exists (select from possible)
    and not exists (
      select
      from possible p
      where p.policy is null
        or case n.needs
          when 'privileged' then (p.policy ->> 'privileged')::boolean
          when 'service_account' then p.policy -> 'service_accounts' @> n.value
          when 'copies' then coalesce(n.value::integer <= (p.policy ->> 'max_copies')::integer, true)
          when 'disk_size' then coalesce(n.value::integer <= (p.policy ->> 'max_disk_gi')::integer, true)
          when 'feature' then coalesce(nullif(p.policy -> 'features', 'null') @> n.value, true)
          when 'told_feature' then p.policy -> 'features' @> n.value
        end
    );
  if v_refused is not null then perform refuse('not_allowed_by_listener', v_refused); end if;
  return true;
end $function$;
create or replace function revoke_bypass(p_deployment uuid, p_bypass uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments := lock_deployment(p_deployment);
  b protection_bypasses;
begin
  delete from protection_bypasses o
  where o.id = p_bypass and o.deployment_id = d.id and o.tenant_id = current_tenant()
  returning * into b;
  if b.id is null then return; end if;
  perform tell_bypasses(d.id);
  answer := to_json(b);
  has_webhooks := conclude_write(
    answer,
    array[(
      'bypass.revoked', b.id, json_build_object('deployment_id', d.id), changed_members(recorded_bypass(b), null)
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function set_deployment_protection(p_deployment uuid, p_protection json, p_needs jsonb,
  p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  if p_needs <> '[]' then perform require_listener_allows(v_stored.listener_id, p_needs); end if;
  update deployments d
  set
    protection = p_protection,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.protection_changed',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('protection', v_stored.protection), jsonb_build_object('protection', v_changed.protection)
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function tell_bypasses(p_deployment uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update deployments d
  set generation = d.generation + 1, remote_reconciled = false
  where d.id = p_deployment and d.tenant_id = current_tenant() and d.protection is not null;
end $function$;
create or replace function use_deploy_hook(p_hook uuid, p_revision uuid, p_ref text, p_key text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_hook deploy_hooks;
  v_stored deployments;
  v_next deployments;
  v_queued record;
begin
  select d.*
  into v_stored
  from deploy_hooks h
  join deployments d on d.id = h.deployment_id
  where h.id = p_hook and h.tenant_id = current_tenant() and d.tenant_id = current_tenant() and d.deleting_at is null
  for update of d;
  if not found then return; end if;
  -- The lock of the deployment makes requests take turns.
  select h.* into v_hook from deploy_hooks h where h.id = p_hook and h.tenant_id = current_tenant();
  if v_hook.last_key = p_key then
    return query
      select to_json(r), false
      from revisions r
      where r.id = v_hook.last_revision_id and r.tenant_id = current_tenant();
    return;
  end if;
  if v_hook.window_at is null or v_hook.window_at <= clock() - interval '1 minute' then
    v_hook.window_at := clock();
    v_hook.window_uses := 0;
  end if;
  if v_hook.window_uses >= 10 then perform refuse('deploy_hook_busy'); end if;
  if v_stored.hold is not null then perform refuse('deploy_hook_held'); end if;

  v_next := v_stored;
  v_next.source_revision_config := unpinned_config(v_stored);
  if p_ref is not null then
    v_next.source_revision_config :=
      v_next.source_revision_config::jsonb || jsonb_build_object('repo_ref', p_ref);
    perform require_branch_to_build_on_push(v_next.source_config, v_next.source_revision_config);
  end if;
  select * into v_queued from queue_revision(v_stored, v_next, p_revision, '{requested}', v_stored.source);
  update deploy_hooks h
  set
    last_used_at = clock(),
    window_at = v_hook.window_at,
    window_uses = v_hook.window_uses + 1,
    last_key = p_key,
    last_revision_id = p_revision
  where h.id = p_hook and h.tenant_id = current_tenant();
  answer := to_json(v_queued.revision);
  has_webhooks := conclude_write(answer, v_queued.events, p_request);
  return next;
end $function$;
set local role slipway_system;
revoke execute on function claim_commit_label(deployments, revisions) from public;
reset role;
set local role slipway_system;
revoke execute on function claim_deployment_labels() from public;
reset role;
set local role slipway_system;
revoke execute on function claim_host_label(deployments, text[], text, uuid) from public;
grant execute on function claim_host_label(deployments, text[], text, uuid) to slipway_agent, slipway_app;
reset role;
set local role slipway_system;
revoke execute on function claim_revision_label() from public;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
--> statement-breakpoint
--> batches
-- What serves keeps its label, as its agent has reported it. Agents of clusters have names of their own.
insert into host_labels (listener_id, label, organization_id, tenant_id, deployment_id, kind)
select distinct on (d.listener_id, u.label)
  d.listener_id, u.label, d.organization_id, d.tenant_id, d.id, 'deployment'
from deployments d
cross join lateral (select split_part(regexp_replace(d.url, '^https?://', ''), '.', 1) as label) u
where d.listener_id is not null
  and u.label = any(deployment_labels(d.name, d.id))
  and not exists (select from host_labels h where h.listener_id = d.listener_id and h.label = u.label)
  and not exists (select from host_labels h where h.deployment_id = d.id)
order by d.listener_id, u.label, d.created_at, d.id
limit 1000
--> statement-breakpoint
--> batches
-- What has not been deployed yet gets the label that a new deployment would get.
insert into host_labels (listener_id, label, organization_id, tenant_id, deployment_id, kind)
select distinct on (d.listener_id, f.label)
  d.listener_id, f.label, d.organization_id, d.tenant_id, d.id, 'deployment'
from deployments d
cross join lateral (
  select l.label
  from unnest(deployment_labels(d.name, d.id)) with ordinality l(label, place)
  where not exists (select from host_labels h where h.listener_id = d.listener_id and h.label = l.label)
  order by l.place
  limit 1
) f
where d.listener_id is not null
  and d.url is null
  and not exists (select from host_labels h where h.deployment_id = d.id)
order by d.listener_id, f.label, d.created_at, d.id
limit 1000
