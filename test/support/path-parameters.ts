// One of each thing that a path can name, for tests of every route. A new path parameter needs one here.
import { sql } from 'drizzle-orm'
import { NewChannel } from '../../src/connect/channels/schema.ts'
import { NewProvider } from '../../src/connect/oauth/schema.ts'
import { NewWebhook } from '../../src/connect/webhooks/schema.ts'
import { createVerificationRecord } from '../../src/hosting/custom-hosts/custom-hosts.ts'
import { NewDeployment } from '../../src/hosting/deployments/schema.ts'
import { NewDrain } from '../../src/hosting/drains/schema.ts'
import { NewSchedule } from '../../src/hosting/jobs/schema.ts'
import { NewListener } from '../../src/hosting/listeners/schema.ts'
import { NewBypass } from '../../src/hosting/protection/schema.ts'
import { newUserCode } from '../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { NewAccessPolicy } from '../../src/people/access/policies.schema.ts'
import { NewTrustedIssuer } from '../../src/people/authorization-server/trusted-issuers.schema.ts'
import { NewFeedbackBody } from '../../src/tracing/feedback/feedback.schema.ts'
import { NewFeedbackLinks } from '../../src/tracing/feedback/feedback-links.schema.ts'
import { NewJob } from '../../src/tracing/insights/jobs.schema.ts'
import { NewView } from '../../src/tracing/projects/views.schema.ts'
import { getApp, type Tenant, txtRecords, unusedId } from './app.ts'
import { makeRepositoryBody, newIntegration } from './integrations.ts'
import { appendRuns, newTrace } from './new-traces.ts'

/** Returns ids by the name of the parameter. */
export async function newPathParameters(tenant: Tenant): Promise<Record<string, string>> {
  const role = await tenant.owner.post('/orgs/current/roles', { display_name: 'Role', permissions: [] })
  const [membership] = (await tenant.get('/workspaces/current/members')).body.resources
  const [key] = (await tenant.get('/workspaces/current/api-keys')).body.resources
  const deployment = await tenant.post('/v2/deployments', NewDeployment.meta()!.example)
  const tagKey = await tenant.post('/v2/tag-keys', { key: 'team' })
  const tagValue = await tenant.post(`/v2/tag-keys/${tagKey.body.id}/values`, { value: 'one' })
  const session = (await tenant.post('/sessions', { name: `project-${unusedId()}` })).body
  const named = { ...NewProvider.meta()!.example!, provider_id: `provider-${unusedId()}` }
  const provider = await tenant.post('/v2/auth/providers', named)
  const flow = await tenant.post('/v2/auth/authenticate', { provider: provider.body.id, user_id: 'somebody' })
  const host = `${unusedId()}.example.com`
  const { name, value } = await createVerificationRecord(getApp(), tenant.tenant_id, host)
  txtRecords.set(name, [value])
  await tenant.post(`/v2/custom-hosts/${host}/verification`)
  txtRecords.delete(name)
  const ownSession = await tenant.post('/v2/me/sessions')
  const listener = await tenant.post('/v2/listeners', NewListener.meta()!.example)
  // Paused: nothing is sent while a test calls other routes.
  const webhook = await tenant.post('/v2/webhooks', { ...NewWebhook.meta()!.example!, enabled: false })
  const channel = await tenant.post('/v2/channels', { ...NewChannel.meta()!.example!, enabled: false })
  const drain = await tenant.post('/v2/drains', { ...NewDrain.meta()!.example!, name: unusedId(), enabled: false })
  const tagging = await tenant.post('/workspaces/current/taggings', {
    tag_value_id: tagValue.body.id,
    resource_type: 'project',
    resource_id: session.id,
  })
  const view = await tenant.post(`/sessions/${session.id}/views`, NewView.meta()!.example)
  const feedback = await tenant.post('/feedback', NewFeedbackBody.meta()!.example)
  const feedbackLink = await tenant.post('/feedback/tokens', NewFeedbackLinks.meta()!.example)
  const policy = await tenant.owner.post('/v1/platform/orgs/current/access-policies', NewAccessPolicy.meta()!.example)
  const dataset = await tenant.post('/datasets', { name: 'Dataset' })
  const { root } = newTrace()
  await appendRuns(tenant, [root])
  const share = await tenant.put(`/runs/${root.id}/share`, {})
  const { body: example } = await tenant.post('/examples', { dataset_id: dataset.body.id, inputs: {} })
  const experiment = await tenant.post('/sessions', { name: unusedId(), reference_dataset_id: dataset.body.id })
  const comparison = await tenant.post('/datasets/comparative', { experiment_ids: [experiment.body.id] })
  const queue = await tenant.post('/annotation-queues', { name: 'Queue' })
  const [queued] = (await tenant.post(`/annotation-queues/${queue.body.id}/runs`, [root.id])).body
  const rule = await tenant.post('/runs/rules', { display_name: 'Rule', sampling_rate: 1, session_id: session.id })
  const insights = `/sessions/${session.id}/insights`
  const job = await tenant.post(insights, NewJob.meta()!.example)
  const config = await tenant.post(`${insights}/configs`, { name: 'Config', config: { model: 'none' } })
  const cluster_id = crypto.randomUUID()
  const schedule = await tenant.post(`/v2/deployments/${deployment.body.id}/schedules`, NewSchedule.meta()!.example)
  const followed = await tenant.post('/v2/deployments', await makeRepositoryBody(tenant))
  const hook = await tenant.post(`/v2/deployments/${followed.body.id}/deploy-hooks`, { name: 'hook' })
  const bypass = await tenant.post(`/v2/deployments/${deployment.body.id}/bypasses`, NewBypass.meta()!.example)
  const model = await tenant.post('/v1/model-configurations', {
    name: 'Model',
    provider: 'openai',
    model: 'gpt',
    auth_type: 'none',
  })
  const budget = await tenant.post('/v1/model-budgets', { period: 'week', limit_calls: 1_000_000 })
  const evaluator = await tenant.post('/v1/platform/evaluators', {
    name: 'Evaluator',
    llm_evaluator: {
      playground_settings_id: model.body.id,
      prompt: [['user', '{output}']],
      schema: { properties: { helpful: { type: 'boolean' } } },
    },
  })
  const trusted = await tenant.post('/v2/trusted-issuers', { ...NewTrustedIssuer.meta()!.example!, name: 'CI' })
  const alertRule = await tenant.post('/v2/alert-rules', { name: 'Alert', condition: { kind: 'log', contains: 'x' } })
  const mute = await tenant.post('/v2/alert-mutes', { reason: 'Mute', starts_at: '2100-01-01T00:00:00Z' })
  const incident_id = crypto.randomUUID()
  const delivery_id = crypto.randomUUID()
  const snapshot_id = crypto.randomUUID()
  const user_code = newUserCode()
  await runAsSystem(
    getApp().database,
    sql`
      insert into webhook_deliveries (id, organization_id, tenant_id, webhook_id, seq, type, state)
      select ${delivery_id}::uuid, organization_id, tenant_id, id, 1, 'api_key.created', 'failed'
      from webhooks
      where id = ${webhook.body.id}::uuid`,
    sql`
      insert into incidents (
        id, organization_id, tenant_id, rule_name, subject_type, subject_id, subject_name, deployment_id,
        severity, title, cause, evidence, channel_ids
      )
      select ${incident_id}::uuid, d.organization_id, d.tenant_id, 'Alert', 'deployment', d.id, d.name, d.id, 'error',
        'Title', '', '{"facts": [], "lines": []}', '{}'
      from deployments d
      where d.id = ${deployment.body.id}::uuid`,
    sql`
      insert into insight_clusters (id, organization_id, tenant_id, job_id, level, place, name, description, num_runs)
      select ${cluster_id}::uuid, organization_id, tenant_id, id, 0, 0, 'Cluster', '', 0
      from insight_jobs
      where id = ${job.body.id}::uuid`,
    sql`
      insert into snapshots (
        id, organization_id, tenant_id, deployment_id, deployment_name, listener_id, store, size_bytes, reason
      )
      select ${snapshot_id}::uuid, organization_id, tenant_id, id, name, ${listener.body.id}::uuid, 'disk:a', 1,
        'manual'
      from deployments
      where id = ${deployment.body.id}::uuid`,
    // A member of this organization has decided it, so no other organization can find it.
    sql`
      insert into device_requests (device_code_hash, user_code, organization_id, member_id, decided_at)
      select ${user_code}, ${user_code}, organization_id, id, clock()
      from members
      where id = ${membership.member_id}::uuid`,
  )
  return {
    // Names of providers are those of every tenant, and this is none.
    secret_key: unusedId(),
    // One needs an agent: hosting/relay/tunnels.test.ts has one of another workspace.
    tunnel_id: unusedId(),
    archive_id: unusedId(),
    trusted_issuer_id: trusted.body.id,
    tagging_id: tagging.body.id,
    configuration_id: model.body.id,
    budget_id: budget.body.id,
    access_policy_id: policy.body.id,
    webhook_id: webhook.body.id,
    channel_id: channel.body.id,
    alert_rule_id: alertRule.body.id,
    incident_id,
    mute_id: mute.body.id,
    drain_id: drain.body.id,
    view_id: view.body.id,
    feedback_id: feedback.body.id,
    token: feedbackLink.body.id,
    delivery_id,
    dataset_id: dataset.body.id,
    run_id: root.id,
    trace_id: root.id,
    share_token: share.body.share_token,
    name: 'inputs',
    path: 'models',
    action: 'pause',
    example_id: example.id,
    rule_id: rule.body.id,
    evaluator_id: evaluator.body.evaluator.id,
    job_id: job.body.id,
    schedule_id: schedule.body.id,
    hook_id: hook.body.id,
    snapshot_id,
    bypass_id: bypass.body.id,
    config_id: config.body.id,
    cluster_id,
    comparative_experiment_id: comparison.body.id,
    queue_id: queue.body.id,
    queue_run_id: queued.id,
    item_id: queued.id,
    index: '0',
    identity_id: membership.member_id,
    listener_id: listener.body.id,
    host,
    auth_id: flow.body.auth_id,
    integration_id: await newIntegration(tenant),
    provider_id: provider.body.provider_id,
    tag_key_id: tagKey.body.id,
    tag_value_id: tagValue.body.id,
    session_id: session.id,
    deployment_id: deployment.body.id,
    revision_id: deployment.body.latest_revision_id,
    other_revision_id: deployment.body.latest_revision_id,
    workspace_id: tenant.tenant_id,
    role_id: role.body.id,
    member_id: membership.member_id,
    membership_id: membership.id,
    key_id: key.id,
    own_session_id: ownSession.body.id,
    user_code,
  }
}
