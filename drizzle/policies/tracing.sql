-- Row-level security and grants: runs, projects, feedback, datasets, queues, rules and insights.

-- ------------------------------------------------------------ annotation_queues
create policy own on annotation_queues to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
create policy admitted on annotation_queues as restrictive to slipway_limited
  using (is_admitted((select access_to('queue')), tag_value_ids));
grant select, insert, delete, update (
    name, description, default_dataset_id, num_reviewers_per_item, enable_reservations, reservation_minutes,
    reviewer_access_mode, reviewer_ids, rubric_instructions, rubric_items, metadata, tag_value_ids, version,
    created_at, updated_at
  ) on annotation_queues to slipway_app;

-- ------------------------------------------------------------ annotation_queue_items
create policy own on annotation_queue_items to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_annotation_queue(queue_id)
    and is_own_project(session_id)
  );
create policy admitted on annotation_queue_items as restrictive to slipway_limited
  using (
    (not (select hides('queue')) or exists (select from annotation_queues q where q.id = queue_id))
    and (not (select hides('project')) or exists (select from projects p where p.id = session_id))
  )
  with check (true);
grant select, insert, delete, update (
    added_at, last_reviewed_time, extends_retention, is_upgraded
  ) on annotation_queue_items to slipway_app;

-- ------------------------------------------------------------ annotation_queue_reviews
create policy own on annotation_queue_reviews to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_annotation_queue_item(item_id)
    and is_own_key(reviewer_id)
  );
create policy admitted on annotation_queue_reviews as restrictive to slipway_limited
  using (exists (select from annotation_queue_items i where i.id = item_id))
  with check (true);
grant select, insert, delete, update (status, override_added_at, updated_at) on annotation_queue_reviews to slipway_app;

-- ------------------------------------------------------------ datasets
create policy own on datasets to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy admitted on datasets as restrictive to slipway_limited
  using (is_admitted((select access_to('dataset')), tag_value_ids));
grant select, insert, delete, update (
    name, description, data_type, inputs_schema_definition, outputs_schema_definition, externally_managed, metadata,
    baseline_experiment_id, tag_value_ids, share_token, last_number, example_count, examples_at, version, created_at,
    updated_at
  ) on datasets to slipway_app;

-- ------------------------------------------------------------ dataset_versions
create policy own on dataset_versions to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_dataset(dataset_id)
  );
create policy admitted on dataset_versions as restrictive to slipway_limited
  using (
    not (select hides('dataset'))
    or exists (select from datasets p where p.id = dataset_versions.dataset_id)
  )
  with check (true);
grant select, insert, update (tags) on dataset_versions to slipway_app;

-- ------------------------------------------------------------ example_contents
create policy own on example_contents to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_dataset(dataset_id)
  );
create policy admitted on example_contents as restrictive to slipway_limited
  using (not (select hides('dataset')) or exists (select from datasets d where d.id = example_contents.dataset_id))
  with check (true);
grant select, insert, delete on example_contents to slipway_app;

-- ------------------------------------------------------------ examples
create policy admitted on examples as restrictive to slipway_limited
  using (
    not (select hides('dataset'))
    or exists (select from datasets p where p.id = examples.dataset_id)
  )
  with check (true);
create policy own on examples to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_dataset(dataset_id)
    and is_own_example_contents(contents_id)
  );
grant select, insert, delete, update (until) on examples to slipway_app;

-- ------------------------------------------------------------ example_objects
create policy own on example_objects to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, insert on example_objects to slipway_app;

-- ------------------------------------------------------------ comparative_experiments
create policy own on comparative_experiments to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_dataset(dataset_id)
  );
create policy admitted on comparative_experiments as restrictive to slipway_limited
  using (
    not (select hides('dataset'))
    or exists (select from datasets d where d.id = comparative_experiments.dataset_id)
  )
  with check (true);
grant select, insert, delete on comparative_experiments to slipway_app;

-- ------------------------------------------------------------ feedbacks
create policy own on feedbacks to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
    and is_own_key(actor_id)
  );
-- Callers that access policies limit. Feedback is hidden with the project of its run, or with its project.
create policy admitted on feedbacks as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or session_id is null
    or exists (select from projects p where p.id = feedbacks.session_id)
  )
  with check (true);
grant select, insert, delete, update (
    trace_id, session_id, start_time, is_attached, score, value, category, comment, correction, source_type,
    source_metadata, is_error, extends_retention, is_upgraded, modified_at
  ) on feedbacks to slipway_app;

-- ------------------------------------------------------------ feedback_configs
create policy own on feedback_configs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy admitted on feedback_configs as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (config, is_lower_score_better, modified_at) on feedback_configs to slipway_app;

-- ------------------------------------------------------------ feedback_tokens
create policy own on feedback_tokens to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy admitted on feedback_tokens as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete on feedback_tokens to slipway_app;

-- ------------------------------------------------------------ insight_configs
create policy own on insight_configs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
  );
-- Callers that access policies limit see insights with their project.
create policy admitted on insight_configs as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = session_id))
  with check (true);
grant select, insert, delete, update (
    name, description, config, schedule_cron, next_start_at, last_started_at, version, updated_at
  ) on insight_configs to slipway_app;

-- ------------------------------------------------------------ insight_jobs
create policy own on insight_jobs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
    and is_own_insight_config(config_id)
  );
create policy admitted on insight_jobs as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = session_id))
  with check (true);
grant select, insert, delete, update (
    name, status, num_runs, metadata, report, error, lease, leased_until, attempts, started_at, finished_at, version,
    updated_at
  ) on insight_jobs to slipway_app;

-- ------------------------------------------------------------ insight_clusters
create policy own on insight_clusters to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_insight_job(job_id)
    and is_own_insight_cluster(parent_id)
  );
create policy admitted on insight_clusters as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or exists (select from insight_jobs j where j.id = insight_clusters.job_id)
  )
  with check (true);
grant select, insert, delete, update (parent_id, num_runs, stats) on insight_clusters to slipway_app;

-- ------------------------------------------------------------ insight_runs
create policy own on insight_runs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_insight_job(job_id)
    and is_own_insight_cluster(cluster_id)
  );
create policy admitted on insight_runs as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or exists (select from insight_jobs j where j.id = insight_runs.job_id)
  )
  with check (true);
grant select, insert, delete, update (summary, attributes, is_excluded, cluster_id) on insight_runs to slipway_app;

-- ------------------------------------------------------------ insight_steps
create policy own on insight_steps to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_insight_job(job_id)
  );
create policy admitted on insight_steps as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or exists (select from insight_jobs j where j.id = insight_steps.job_id)
  )
  with check (true);
grant select, insert, delete, update (
    state, attempts, answer, error, run_id, updated_at
  ) on insight_steps to slipway_app;

-- ------------------------------------------------------------ evaluators
create policy own on evaluators to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
create policy admitted on evaluators as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (
    name, structured, feedback_keys, metadata, version, created_at, updated_at
  ) on evaluators to slipway_app;

-- ------------------------------------------------------------ run_rules
create policy own on run_rules to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
-- Rules are hidden with what they are about, and what they did with the projects of the runs.
create policy admitted on run_rules as restrictive to slipway_limited
  using (
    (
      session_id is null
      or not (select hides('project'))
      or exists (select from projects p where p.id = session_id)
    )
    and (
      dataset_id is null
      or not (select hides('dataset'))
      or exists (select from datasets d where d.id = dataset_id)
    )
  )
  with check (true);
grant select, insert, delete, update (
    display_name, is_enabled, sampling_rate, filter, trace_filter, tree_filter, add_to_annotation_queue_id,
    add_to_dataset_id, add_to_dataset_prefer_correction, extend_only, webhooks, "position", backfill_status,
    backfill_cursor, backfill_completed_at, next_evaluation_at, version, created_at, updated_at, alerts, evaluators,
    evaluator_id, spend_limit_usd
  ) on run_rules to slipway_app;

-- ------------------------------------------------------------ finished_runs
create policy own on finished_runs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy admitted on finished_runs as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = session_id))
  with check (true);
grant select on finished_runs to slipway_app;

-- ------------------------------------------------------------ rule_applications
create policy own on rule_applications to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_rule(rule_id)
  );
create policy admitted on rule_applications as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = run_session_id))
  with check (true);
grant select, insert on rule_applications to slipway_app;

-- ------------------------------------------------------------ rule_deliveries
create policy own on rule_deliveries to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_rule(rule_id)
  );
create policy admitted on rule_deliveries as restrictive to slipway_limited
  using (exists (select from run_rules r where r.id = rule_id))
  with check (true);
grant select, insert on rule_deliveries to slipway_app;

-- ------------------------------------------------------------ rule_evaluations
create policy own on rule_evaluations to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_rule(rule_id)
  );
create policy admitted on rule_evaluations as restrictive to slipway_limited
  using (exists (select from run_rules r where r.id = rule_id))
  with check (true);
grant select, insert on rule_evaluations to slipway_app;

-- ------------------------------------------------------------ projects
create policy own on projects to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_dataset(default_dataset_id)
    and is_own_dataset(reference_dataset_id)
  );
create policy admitted on projects as restrictive to slipway_limited
  using (is_admitted((select access_to('project')), tag_value_ids));
create policy confined on projects as restrictive to slipway_confined
  using (id = (select confined_project()));
grant select, insert, delete, update (
    deployment_id, name, created_at, description, start_time, end_time, extra, default_dataset_id,
    reference_dataset_id, tag_value_ids, trace_tier, earlier_tiers, longlived_ttl_days, updated_at, num_examples,
    num_repetitions, evaluator_keys, version
  ) on projects to slipway_app;

-- ------------------------------------------------------------ runs
create policy own on runs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy admitted on runs as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or exists (select from projects p where p.id = runs.session_id)
  )
  with check (true);
create policy confined on runs as restrictive to slipway_confined
  using (session_id = (select confined_project()));
grant select, insert, delete, update (
    trace_id, trace_time, trace_tier, dotted_order, parent_run_id, name, run_type, start_time, end_time,
    first_token_time, error, tags, metadata, thread_id, reference_example_id, extra, serialized, inputs, outputs,
    events, inputs_preview, outputs_preview, objects, prompt_tokens, completion_tokens, total_tokens, prompt_cost,
    completion_cost, total_cost, usage_details, patched, updated_at
  ) on runs to slipway_app;

-- ------------------------------------------------------------ run_shares
create policy own on run_shares to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
  );
create policy admitted on run_shares as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = run_shares.session_id))
  with check (true);
grant select, insert, delete on run_shares to slipway_app;

-- ------------------------------------------------------------ thread_shares
create policy own on thread_shares to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
  );
create policy admitted on thread_shares as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = thread_shares.session_id))
  with check (true);
grant select, insert, delete on thread_shares to slipway_app;

-- ------------------------------------------------------------ upgraded_traces
create policy own on upgraded_traces to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, insert, delete on upgraded_traces to slipway_app;

-- ------------------------------------------------------------ trace_objects
create policy own on trace_objects to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy admitted on trace_objects as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or exists (select from projects p where p.id = trace_objects.session_id)
  )
  with check (true);
create policy confined on trace_objects as restrictive to slipway_confined
  using (session_id = (select confined_project()));
grant select, insert, delete, update (trace_id, expires_at, bytes) on trace_objects to slipway_app;

-- ------------------------------------------------------------ otlp_spans
create policy own on otlp_spans to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
create policy confined on otlp_spans as restrictive to slipway_confined
  using (
    session_id = (select confined_project())
    or exists (
      select from runs r
      where r.tenant_id = otlp_spans.tenant_id and r.id = otlp_spans.run_id and r.order_time = otlp_spans.order_time
    )
  );
create policy admitted on otlp_spans as restrictive to slipway_limited
  using (
    case
      when session_id is not null then exists (select from projects p where p.id = otlp_spans.session_id)
      else not exists (
        select from runs r
        where r.tenant_id = otlp_spans.tenant_id and r.id = otlp_spans.run_id and r.order_time = otlp_spans.order_time
          and not exists (select from projects p where p.id = r.session_id)
      )
    end
  );
grant select, insert, update (dotted_order) on otlp_spans to slipway_app;

-- ------------------------------------------------------------ session_minutes
create policy own on session_minutes to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
create policy admitted on session_minutes as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or exists (select from projects p where p.id = session_minutes.session_id)
  )
  with check (true);
grant select on session_minutes to slipway_app;

-- ------------------------------------------------------------ waiting_patches
create policy own on waiting_patches to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
grant select, insert, delete on waiting_patches to slipway_app;

-- ------------------------------------------------------------ open_runs
create policy own on open_runs to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
create policy confined on open_runs as restrictive to slipway_confined
  using (session_id = (select confined_project()));
grant select, insert, delete on open_runs to slipway_app;

-- ------------------------------------------------------------ filter_views
create policy own on filter_views to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
  );
create policy admitted on filter_views as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or exists (select from projects p where p.id = filter_views.session_id)
  )
  with check (true);
grant select, insert, delete, update (
    display_name, description, type, filter_string, trace_filter_string, tree_filter_string, start_time, end_time,
    duration, updated_at, version
  ) on filter_views to slipway_app;

-- ------------------------------------------------------------ ttl_settings
-- Each workspace sees the settings of its organization, which it inherits.
create policy own on ttl_settings to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id is null or tenant_id = current_tenant())
  )
  with check (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
    and is_own_workspace(tenant_id)
  );
create policy admitted on ttl_settings as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (
    default_trace_tier, longlived_ttl_days, updated_at
  ) on ttl_settings to slipway_app;

-- ------------------------------------------------------------ deleted_projects
create policy own on deleted_projects to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
  );
grant select, insert on deleted_projects to slipway_app;
