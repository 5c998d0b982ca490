-- Row-level security and grants: deployments, revisions, listeners, git hosts, logs, uploads and tags.

-- ------------------------------------------------------------ deployments
-- check_deployment_references() checks the references of a deployment where they change.
create policy own on deployments to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
-- A listener of the platform takes over deployments that no listener serves yet.
create policy served on deployments to slipway_agent
  using (
    listener_id = current_listener()
    or (listener_id is null and setting('platform') = 'true')
  );
-- Callers that policies limit. Resources have tags.
create policy admitted on deployments as restrictive to slipway_limited
  using (is_admitted((select access_to('deployment')), tag_value_ids));
grant select, delete, update (
    name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config,
    source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions,
    latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key,
    deleting_at, listener_id, url, local_url, healthy, last_request_at, custom_host, custom_path, version, created_at,
    updated_at, reported_health, health_reason, health_processes, dormant_parts, incidents, incidents_due, traffic,
    applied_traffic, rollout, rollout_due_at
  ) on deployments to slipway_agent;
grant select, insert, delete, update (
    name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config,
    source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions,
    latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key,
    deleting_at, listener_id, url, local_url, healthy, last_request_at, custom_host, custom_path, version, created_at,
    updated_at, trace_key_version, owner, protection, reported_health, health_reason, health_processes, dormant_parts,
    incidents, incidents_due, traffic, applied_traffic, rollout, rollout_secret, rollout_due_at, request_logs
  ) on deployments to slipway_app;

-- ------------------------------------------------------------ custom_hosts
create policy own on custom_hosts for select to slipway_app
  using (tenant_id = current_tenant());
create policy served on custom_hosts for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = custom_hosts.tenant_id
        and d.listener_id = current_listener()
    )
  );
create policy admitted on custom_hosts as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments d where d.custom_host = host)
  )
  with check (true);
create policy reported on custom_hosts for update to slipway_agent
  using (
    exists (
      select from deployments d
      where d.custom_host = host
        and d.tenant_id = custom_hosts.tenant_id
        and d.listener_id = current_listener()
    )
  );
grant select, update (certificate_failed_at, unreachable_since) on custom_hosts to slipway_agent;
grant select on custom_hosts to slipway_app;

-- ------------------------------------------------------------ host_labels
create policy own on host_labels for select to slipway_app
  using (tenant_id = current_tenant());
create policy served on host_labels for select to slipway_agent
  using (listener_id = current_listener());
create policy admitted on host_labels as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments d where d.id = host_labels.deployment_id)
  )
  with check (true);
grant select on host_labels to slipway_agent;
grant select on host_labels to slipway_app;

-- ------------------------------------------------------------ revisions
create policy own on revisions to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy served on revisions to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  );
create policy admitted on revisions as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = revisions.deployment_id)
  )
  with check (true);
grant select, update (
    number, source, source_config, source_revision_config, secrets, secret_references, status, status_message,
    status_since, reasons, commit, build_plan, actor_kind, actor_name, created_at, updated_at, rollout
  ) on revisions to slipway_agent;
grant select, insert, delete, update (
    number, source, source_config, source_revision_config, secrets, secret_references, status, status_message,
    status_since, reasons, commit, build_plan, actor_kind, actor_name, created_at, updated_at, rollout
  ) on revisions to slipway_app;

-- ------------------------------------------------------------ deployment_secrets
create policy own on deployment_secrets to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
create policy served on deployment_secrets to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  );
create policy admitted on deployment_secrets as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = deployment_secrets.deployment_id)
  )
  with check (true);
grant select on deployment_secrets to slipway_agent;
grant select, insert, delete, update (name, version, sealed, created_at) on deployment_secrets to slipway_app;

-- ------------------------------------------------------------ integrations
create policy own on integrations to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_key(created_by)
  );
-- An agent calls a git host through the integrations of the deployments that its listener serves.
create policy served on integrations for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.listener_id = current_listener()
        and d.tenant_id = integrations.tenant_id
        and d.source_config ->> 'integration_id' = integrations.id::text
    )
  );
grant select on integrations to slipway_agent;
grant select, insert, delete, update (
    host, base_url, app_id, installation_id, account_id, name, state, credentials, token, token_expires_at, version,
    created_at, updated_at, problem, ssh
  ) on integrations to slipway_app;

-- ------------------------------------------------------------ integration_listings
create policy own on integration_listings to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_integration(integration_id)
  );
create policy admitted on integration_listings as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (pages, fetched_at) on integration_listings to slipway_app;

-- ------------------------------------------------------------ followed_repositories
create policy own on followed_repositories to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_integration(integration_id)
  );
create policy admitted on followed_repositories as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select on followed_repositories to slipway_app;

-- ------------------------------------------------------------ integration_installs
create policy own on integration_installs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_key(actor_id)
  );
create policy admitted on integration_installs as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (expires_at, created_at) on integration_installs to slipway_app;

-- ------------------------------------------------------------ listeners
create policy own on listeners to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
-- Listeners of the platform serve every workspace, whose callers may see their state.
create policy shared on listeners for select to slipway_app
  using (
    tenant_id is null
    and current_organization() is not null
  );
create policy agents_own on listeners to slipway_agent
  using (id = current_listener());
grant select, update (
    compute_type, compute_id, compute_config, agent_id, agent_version, fence, lease_expires_at, last_seen_at, version,
    created_at, updated_at, templates, template_descriptions, verified_hosts_only, policy
  ) on listeners to slipway_agent;
grant select, insert, delete, update (
    compute_type, compute_id, compute_config, agent_id, agent_version, fence, lease_expires_at, last_seen_at, version,
    created_at, updated_at
  ) on listeners to slipway_app;

-- ------------------------------------------------------------ sync_cursors
create policy own on sync_cursors to slipway_agent
  using (listener_id = current_listener());
grant select, update (seq, digest) on sync_cursors to slipway_agent;

-- ------------------------------------------------------------ sync_items
create policy own on sync_items to slipway_agent
  using (listener_id = current_listener());
grant select, delete on sync_items to slipway_agent;

-- ------------------------------------------------------------ logs
create policy own on logs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_revision(revision_id)
  );
-- An agent writes logs only in the workspace of a deployment that its listener serves.
create policy served on logs to slipway_agent
  using (exists (select from revisions r where r.id = revision_id))
  with check (
    exists (
      select from revisions r
      where r.id = revision_id
        and r.tenant_id = logs.tenant_id
        and r.organization_id = logs.organization_id
    )
  );
create policy admitted on logs as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from revisions p where p.id = logs.revision_id)
  )
  with check (true);
grant select, insert, update (kind, lines, bytes, stream, next_line) on logs to slipway_agent;
grant select, insert, delete, update (kind, lines, bytes, stream, next_line) on logs to slipway_app;

-- ------------------------------------------------------------ log_lines
create policy own on log_lines to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_revision(revision_id)
  );
create policy served on log_lines to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = log_lines.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = log_lines.tenant_id
        and d.organization_id = log_lines.organization_id
    )
  );
create policy admitted on log_lines as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = log_lines.deployment_id)
  )
  with check (true);
grant select, insert, delete, update (
    kind, number, "timestamp", severity, message, bytes_before, arrival, process, attributes, request_id,
    trace_id
  ) on log_lines to slipway_agent;
grant select, insert, delete, update (
    kind, number, "timestamp", severity, message, bytes_before, arrival, process, attributes, request_id,
    trace_id
  ) on log_lines to slipway_app;

-- ------------------------------------------------------------ log_counters
create policy own on log_counters to slipway_app
  using (tenant_id = current_tenant());
-- An agent counts the lines of a deployment that its listener serves.
create policy served on log_counters to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = log_counters.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = log_counters.tenant_id
        and d.organization_id = log_counters.organization_id
    )
  );
create policy admitted on log_counters as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = log_counters.deployment_id)
  )
  with check (true);
grant select, insert, update (arrival) on log_counters to slipway_agent;
grant select on log_counters to slipway_app;

-- ------------------------------------------------------------ log_batches
-- An agent queues lines of a deployment that its listener serves. The sweep reads them.
create policy served on log_batches to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = log_batches.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = log_batches.tenant_id
        and d.organization_id = log_batches.organization_id
    )
  );
grant select, insert on log_batches to slipway_agent;

-- ------------------------------------------------------------ log_losses
create policy own on log_losses for select to slipway_app
  using (tenant_id = current_tenant());
create policy served on log_losses to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = log_losses.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = log_losses.tenant_id
        and d.organization_id = log_losses.organization_id
    )
  );
create policy admitted on log_losses as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = log_losses.deployment_id)
  )
  with check (true);
grant select, insert, update (lines) on log_losses to slipway_agent;
grant select on log_losses to slipway_app;

-- ------------------------------------------------------------ log_archives
create policy own on log_archives for select to slipway_app
  using (tenant_id = current_tenant());
create policy admitted on log_archives as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = log_archives.deployment_id)
  )
  with check (true);
grant select on log_archives to slipway_app;

-- ------------------------------------------------------------ log_archive_settings
create policy own on log_archive_settings to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
-- An agent sees whether lines of a deployment are archived.
create policy served on log_archive_settings for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = log_archive_settings.tenant_id
        and d.listener_id = current_listener()
    )
  );
-- Without a deployment, the settings are about those that are hidden, too: they are read, and not changed.
create policy admitted on log_archive_settings as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or deployment_id is null
    or exists (select from deployments p where p.id = log_archive_settings.deployment_id)
  )
  with check (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = log_archive_settings.deployment_id)
  );
grant select on log_archive_settings to slipway_agent;
grant select, insert, update (enabled, retention_days, updated_at) on log_archive_settings to slipway_app;

-- ------------------------------------------------------------ jobs
create policy own on jobs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_revision(revision_id)
    and is_own_schedule(schedule_id)
    and is_own_listener(listener_id)
    and is_own_key(actor_id)
  );
-- An agent runs the jobs of a deployment that its listener serves.
create policy served on jobs to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  );
create policy admitted on jobs as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = jobs.deployment_id)
  )
  with check (true);
-- write_jobs() changes the rest. Without any, requests could not lock a row.
grant select, update (lines, bytes, stream, next_line) on jobs to slipway_agent;
grant select, insert, update (cancel_requested_at) on jobs to slipway_app;

-- ------------------------------------------------------------ job_lines
create policy own on job_lines for select to slipway_app
  using (tenant_id = current_tenant());
create policy served on job_lines to slipway_agent
  using (exists (select from jobs j where j.id = job_id))
  with check (
    exists (
      select from jobs j
      where j.id = job_id
        and j.tenant_id = job_lines.tenant_id
        and j.organization_id = job_lines.organization_id
    )
  );
create policy admitted on job_lines as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from jobs j where j.id = job_lines.job_id)
  )
  with check (true);
grant select, insert, delete on job_lines to slipway_agent;
grant select on job_lines to slipway_app;

-- ------------------------------------------------------------ schedules
create policy own on schedules to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
create policy admitted on schedules as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = schedules.deployment_id)
  )
  with check (true);
grant select, insert, delete, update (
    name, cron, time_zone, command, action, timeout_seconds, overlap, jitter_seconds, retries, deadline_seconds,
    process, enabled, owner, next_due_at, version, updated_at
  ) on schedules to slipway_app;

-- ------------------------------------------------------------ deploy_hooks
create policy own on deploy_hooks to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
create policy admitted on deploy_hooks as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = deploy_hooks.deployment_id)
  )
  with check (true);
grant select, insert, delete, update (
    last_used_at, window_at, window_uses, last_key, last_revision_id
  ) on deploy_hooks to slipway_app;

-- ------------------------------------------------------------ drains
create policy own on drains to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, insert, delete, update (
    name, url, compression, header_names, headers, signals, deployment_ids, tag_value_ids, min_level, processes,
    contains, sampling_rate, enabled, "position", trace_position, next_send_at, failures, sent, dropped, last_sent_at,
    failing_since, error, owner, version, created_at, updated_at
  ) on drains to slipway_app;

-- ------------------------------------------------------------ drain_states
create policy own on drain_states for select to slipway_app
  using (tenant_id = current_tenant());
grant select on drain_states to slipway_app;

-- ------------------------------------------------------------ metric_points
create policy own on metric_points to slipway_app
  using (tenant_id = current_tenant());
-- An agent writes points of revisions of a deployment that its listener serves.
create policy served on metric_points to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = metric_points.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = metric_points.tenant_id
        and d.organization_id = metric_points.organization_id
    )
  );
create policy admitted on metric_points as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = metric_points.deployment_id)
  )
  with check (true);
grant select, insert, update (
    cpu_minutes, memory_minutes, copies, memory_peak_bytes, queue, restarts, cpu_ms, memory_bytes, unreached,
    status_1xx, status_2xx, status_3xx, status_4xx, status_5xx, latency_1, latency_2, latency_5, latency_10, latency_20,
    latency_50, latency_100, latency_200, latency_500, latency_1000, latency_2000, latency_5000, latency_10000,
    latency_20000, latency_60000, latency_more
  ) on metric_points to slipway_agent;
grant select on metric_points to slipway_app;

-- ------------------------------------------------------------ process_points
create policy own on process_points to slipway_app
  using (tenant_id = current_tenant());
create policy served on process_points to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from revisions r
      join deployments d on d.id = r.deployment_id
      where r.id = revision_id
        and d.id = process_points.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = process_points.tenant_id
        and d.organization_id = process_points.organization_id
    )
  );
create policy admitted on process_points as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = process_points.deployment_id)
  )
  with check (true);
grant select, insert, update (
    cpu_minutes, memory_minutes, copies, memory_peak_bytes, restarts, cpu_ms, memory_bytes
  ) on process_points to slipway_agent;
grant select on process_points to slipway_app;

-- ------------------------------------------------------------ store_points
create policy own on store_points to slipway_app
  using (tenant_id = current_tenant());
create policy served on store_points to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  )
  with check (
    exists (
      select from deployments d
      where d.id = store_points.deployment_id
        and d.listener_id = current_listener()
        and d.tenant_id = store_points.tenant_id
        and d.organization_id = store_points.organization_id
    )
  );
create policy admitted on store_points as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = store_points.deployment_id)
  )
  with check (true);
grant select, insert, update (bytes, connections) on store_points to slipway_agent;
grant select on store_points to slipway_app;

-- ------------------------------------------------------------ deployment_heads
create policy own on deployment_heads to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
create policy admitted on deployment_heads as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = deployment_heads.deployment_id)
  )
  with check (true);
grant select, insert, delete, update (queried_at, gone_ref) on deployment_heads to slipway_app;

-- ------------------------------------------------------------ commit_statuses
create policy own on commit_statuses to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_revision(revision_id)
  );
create policy admitted on commit_statuses as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = commit_statuses.deployment_id)
  )
  with check (true);
grant select, insert, update (revision_id, notified_state, attempts, next_attempt_at) on commit_statuses to slipway_app;

-- ------------------------------------------------------------ protection_bypasses
create policy own on protection_bypasses to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
  );
create policy served on protection_bypasses for select to slipway_agent
  using (
    exists (
      select from deployments d
      where d.id = deployment_id
        and d.listener_id = current_listener()
    )
  );
create policy admitted on protection_bypasses as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = protection_bypasses.deployment_id)
  )
  with check (true);
grant select on protection_bypasses to slipway_agent;
grant select, insert, delete on protection_bypasses to slipway_app;

-- ------------------------------------------------------------ preview_policies
create policy own on preview_policies to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(id)
  );
create policy admitted on preview_policies as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = preview_policies.id)
  )
  with check (true);
grant select, insert, delete, update (
    branches, kinds, ttl_seconds, max, forks, secrets, inherited_secrets, resource_spec, protection, database,
    existing_branches, on_create, on_delete, hook_secret, version, created_at, updated_at
  ) on preview_policies to slipway_app;

-- ------------------------------------------------------------ previews
create policy own on previews to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(parent_id)
    and is_own_deployment(deployment_id)
    and is_own_key(approved_by)
  );
create policy admitted on previews as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = previews.parent_id)
  )
  with check (true);
grant select, insert, delete, update (
    kind, number, state, deployment_id, branch, head_sha, request, problem, fork, approved_sha, approved_by,
    changed_at, expires_at,
    notified_state, comment_id, notify_attempts, next_notify_at, created_at, updated_at, commit, end_reason, pending_sha
  ) on previews to slipway_app;

-- ------------------------------------------------------------ preview_hooks
create policy own on preview_hooks to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_preview(preview_id)
    and is_own_deployment(parent_id)
  );
create policy admitted on preview_hooks as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = preview_hooks.parent_id)
  )
  with check (true);
grant select, insert, delete, update (
    url, secret, body, attempts, next_attempt_at, error, created_at
  ) on preview_hooks to slipway_app;

-- ------------------------------------------------------------ tag_keys
create policy own on tag_keys to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, insert, delete, update (key, created_at, description, updated_at, version) on tag_keys to slipway_app;

-- ------------------------------------------------------------ tag_values
create policy own on tag_values to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_tag_key(tag_key_id)
  );
grant select, insert, delete, update (value, created_at, description, updated_at, version) on tag_values to slipway_app;

-- ------------------------------------------------------------ uploads
create policy own on uploads to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_key(actor_id)
  );
-- An archive belongs to its workspace: another of its deployments may have requested the link.
create policy served on uploads to slipway_agent
  using (
    exists (
      select from deployments d
      where d.tenant_id = uploads.tenant_id
        and d.listener_id = current_listener()
    )
  );
create policy admitted on uploads as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = uploads.deployment_id)
  )
  with check (true);
grant select on uploads to slipway_agent;
grant select, insert, delete, update (
    object_path, state, size, reserved, sha256, actor_kind, expires_at, used_at, created_at
  ) on uploads to slipway_app;

-- ------------------------------------------------------------ tunnels
create policy own on tunnels to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_key(actor_id)
  );
-- A tunnel leads to what serves when it is made. Another revision may serve when its row is updated.
create policy made on tunnels as restrictive for insert to slipway_app
  with check (
    exists (
      select from deployments d
      where d.id = tunnels.deployment_id
        and d.tenant_id = current_tenant()
        and d.active_revision_id = tunnels.revision_id
        and d.listener_id = tunnels.listener_id
    )
  );
create policy served on tunnels to slipway_agent
  using (listener_id = current_listener());
create policy admitted on tunnels as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = tunnels.deployment_id)
  )
  with check (true);
grant select, insert, update (
    instance, address, joined_at, seen_at, bytes_in, bytes_out
  ) on tunnels to slipway_app;
grant select, update (offered_at, opened_at, fence) on tunnels to slipway_agent;

-- ------------------------------------------------------------ snapshots
create policy own on snapshots to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
create policy admitted on snapshots as restrictive to slipway_limited
  using (
    not (select hides('deployment'))
    or exists (select from deployments p where p.id = snapshots.deployment_id)
  )
  with check (true);
grant select, update (deleting_at) on snapshots to slipway_app;

-- ------------------------------------------------------------ alert_rules
create policy own on alert_rules to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(project_id)
  );
create policy admitted on alert_rules as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or project_id is null
    or exists (select from projects p where p.id = alert_rules.project_id)
  );
grant select, insert, delete, update (
    name, enabled, kind, condition, deployment_ids, tag_value_ids, for_seconds, resolve_after_seconds, severity,
    channel_ids, next_look_at, version, created_at, updated_at, project_id
  ) on alert_rules to slipway_app;

-- ------------------------------------------------------------ alert_settings
create policy own on alert_settings to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, insert, update (defaults_enabled, version, created_at, updated_at) on alert_settings to slipway_app;

-- ------------------------------------------------------------ alert_states
create policy own on alert_states to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, update (phase, since, relapses, sampled_at, due_at, version) on alert_states to slipway_app;

-- ------------------------------------------------------------ incidents
create policy own on incidents to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_project(project_id)
    and is_own_rule(run_rule_id)
  );
create policy admitted on incidents as restrictive to slipway_limited
  using (
    (
      not (select hides('deployment'))
      or deployment_id is null
      or exists (select from deployments d where d.id = incidents.deployment_id)
    )
    and (
      not (select hides('project'))
      or project_id is null
      or exists (select from projects p where p.id = incidents.project_id)
    )
  );
grant select, update (
    state, severity, cause, value, evidence, reopened, muted_until, tell_at, is_told, sequence, last_at, resolved_at,
    version, created_at, updated_at
  ) on incidents to slipway_app;

-- ------------------------------------------------------------ incident_changes
create policy own on incident_changes to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_key(actor_id)
    and exists (select from incidents i where i.id = incident_id and i.tenant_id = current_tenant())
  );
create policy admitted on incident_changes as restrictive to slipway_limited
  using (exists (select from incidents i where i.id = incident_changes.incident_id))
  with check (true);
grant select, insert on incident_changes to slipway_app;

-- ------------------------------------------------------------ alert_mutes
create policy own on alert_mutes to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
-- A row that is deleted is locked before, which takes an update.
grant select, insert, delete, update (version, updated_at) on alert_mutes to slipway_app;
