// Every resource that a program like Terraform can declare: what it sends to create one, and to change one.
import { NewDeployment } from '../../src/hosting/deployments/schema.ts'
import { foreignServers, type Tenant, unusedId } from './app.ts'
import { makeFakeFetch } from './fake-fetch.ts'
import { makeGitea, makeRepositories } from './fake-git-hosts.ts'
import { newIntegration } from './integrations.ts'
import type { Members } from './planner.ts'

type Ids = Record<string, string>
export type Declared = {
  /** The path of one. Its last parameter is the id. */
  item: string
  create?: { method?: 'put'; path?: string }
  /** Members that the route of updates takes, if its schema does not say. */
  accepts?: string[]
  /** Requests use the key of the organization's Admin. */
  asOwner?: true
  /** Creates the things that its path or body refers to. */
  parents?: (tenant: Tenant) => Promise<Ids>
  wanted: (ids: Ids) => Members
  /** Members with other values. Without any, a change replaces it. */
  changed: (ids: Ids) => Members
  idMember?: string
  /** The member that holds its name, and how a list is asked for it. */
  named?: { member: string; list?: string; query?: string; resources?: string }
  /** Members that no read shows, and the fingerprints that reads show instead. */
  secrets?: { members: string[]; fingerprints: (read: Members) => unknown }
  /** Reads a resource that is a part of another one. */
  read?: (tenant: Tenant, ids: Ids, id: string) => Promise<Members | undefined>
  /** The resource in the reply to its creation. */
  created?: (body: Members) => Members
  /** Finds the id if the reply to its creation has none. */
  idOf?: (ids: Ids) => string
  /** The parameter of the query that is its id: routes without one in their path. */
  keyQuery?: string
  /** Creating it again has the same effect. */
  isOverwritten?: true
  /** Members that a second one needs to have different. */
  unlike?: string[]
  /** Members within a member that the server fills in. */
  computed?: string[]
  isLeaving?: (read: Members) => boolean
  /** Members that a change takes together with the secret only: who sends them must know it. */
  withSecret?: string[]
  /** Destroying it again is no error. */
  destroysQuietly?: true
}

type TaggedKey = { values: { taggings: Members[] }[] }

const named = (prefix: string) => `${prefix}-${unusedId()}`
const idOf = async (created: Promise<{ body: { id: string } }>): Promise<string> => (await created).body.id
const newProject = (tenant: Tenant) => idOf(tenant.post('/sessions', { name: named('project') }))
const newDataset = (tenant: Tenant) => idOf(tenant.post('/datasets', { name: named('dataset') }))
const newModel = (tenant: Tenant) =>
  idOf(
    tenant.post('/v1/model-configurations', { name: named('m'), provider: 'openai', model: 'gpt', auth_type: 'none' }),
  )
const newDeployment = (tenant: Tenant) =>
  idOf(tenant.post('/v2/deployments', { ...NewDeployment.meta()!.example!, name: named('app') }))
const newTagKey = (tenant: Tenant) => idOf(tenant.post('/v2/tag-keys', { key: named('key') }))
const newTagValue = async (tenant: Tenant) =>
  idOf(tenant.post(`/v2/tag-keys/${await newTagKey(tenant)}/values`, { value: named('value') }))
const newRole = (tenant: Tenant) =>
  idOf(tenant.owner.post('/orgs/current/roles', { display_name: named('role'), permissions: ['deployments:read'] }))
const newPolicy = (tenant: Tenant) => idOf(tenant.owner.post(POLICIES, makePolicy()))
const findComparison = ([found]: (Members & { experiments_info: { id: string }[] })[]): Members | undefined =>
  found && { ...found, experiment_ids: found.experiments_info.map(({ id }) => id) }
const newMembership = async (tenant: Tenant) => {
  const member_id = await newMember(tenant)
  await tenant.post('/workspaces/current/members', { member_id })
  return member_id
}
const newMember = (tenant: Tenant) =>
  idOf(tenant.owner.post('/orgs/current/members', { email: `${unusedId()}@example.com` }))

const GITEA = makeGitea()
const POLICIES = '/v1/platform/orgs/current/access-policies'
const CONDITION = {
  attribute_name: 'resource_tag_key',
  attribute_key: 'Environment',
  operator: 'equals',
  attribute_value: 'production',
}
const GROUP = { permission: 'deployments:update', resource_type: 'deployment', conditions: [CONDITION] }
const makePolicy = () => ({ name: named('policy'), effect: 'deny', condition_groups: [GROUP] })
const makeJudge = (playground_settings_id: string) => ({
  playground_settings_id,
  prompt: [['user', '{output}']],
  template_format: 'f-string',
  schema: { properties: { helpful: { type: 'boolean' } } },
})
const makeKey = () => ({ description: named('key'), permissions: ['deployments:read'], expires_at: null })

export const DECLARED: Record<string, Declared> = {
  deployment: {
    item: '/v2/deployments/{deployment_id}',
    wanted: () => ({
      name: named('app'),
      source: 'internal_template',
      source_config: { template_id: 'web-service', resource_spec: { min_scale: 1, max_scale: 3 } },
      source_revision_config: {},
      secrets: [{ name: 'TOKEN', value: 'hush' }],
    }),
    changed: () => ({
      source_config: { template_id: 'web-service', resource_spec: { min_scale: 2, max_scale: 3 } },
      secrets: [{ name: 'TOKEN', value: 'changed' }],
    }),
    named: { member: 'name' },
    secrets: { members: ['secrets'], fingerprints: ({ secret_fingerprints }) => secret_fingerprints },
    computed: ['source_config.deployment_type'],
    unlike: ['health'],
    isLeaving: ({ status }) => status === 'AWAITING_DELETE',
  },
  'preview policy': {
    item: '/v2/deployments/{deployment_id}/preview-policy',
    create: { method: 'put' },
    parents: async tenant => {
      const integration_id = await newIntegration(tenant)
      const deployment = await tenant.post('/v2/deployments', {
        name: named('app'),
        source: 'githost',
        secrets: [],
        source_config: { integration_id, repo_url: 'https://git.example.com/acme/app', build_on_push: false },
        source_revision_config: { repo_ref: 'main', platform_config_path: 'platform.json' },
      })
      return { deployment_id: deployment.body.id }
    },
    idMember: 'deployment_id',
    wanted: () => ({
      branches: ['z-*', 'a-*'],
      ttl: 259_200,
      max: 5,
      forks: 'approve',
      resource_spec: { min_scale: 1 },
      secrets: [{ name: 'OVERLAY', value: 'hush' }],
    }),
    changed: () => ({ branches: ['b-*'], secrets: [{ name: 'OVERLAY', value: 'changed' }] }),
    secrets: { members: ['secrets'], fingerprints: ({ secret_fingerprints }) => secret_fingerprints },
  },
  schedule: {
    item: '/v2/deployments/{deployment_id}/schedules/{schedule_id}',
    parents: async tenant => ({ deployment_id: await newDeployment(tenant) }),
    wanted: () => ({
      name: named('schedule'),
      cron: '0 8 * * 1',
      command: 'python report.py',
      overlap: 'skip',
      time_zone: 'Europe/Berlin',
    }),
    changed: () => ({ cron: '0 9 * * 1', command: ['python', 'report.py'], overlap: 'allow' }),
    named: { member: 'name' },
  },
  'tag key': {
    item: '/v2/tag-keys/{tag_key_id}',
    accepts: ['key'],
    wanted: () => ({ key: named('key') }),
    changed: () => ({ key: named('other') }),
    named: { member: 'key' },
  },
  'tag value': {
    item: '/v2/tag-values/{tag_value_id}',
    create: { path: '/v2/tag-keys/{tag_key_id}/values' },
    parents: async tenant => ({ tag_key_id: await newTagKey(tenant) }),
    accepts: ['value'],
    wanted: () => ({ value: named('value') }),
    changed: () => ({ value: named('other') }),
    named: { member: 'value' },
  },
  'workspace tag key': {
    item: '/workspaces/current/tag-keys/{tag_key_id}',
    wanted: () => ({ key: named('key'), description: 'Who pays for it' }),
    changed: () => ({ description: '' }),
    named: { member: 'key' },
  },
  'workspace tag value': {
    item: '/workspaces/current/tag-keys/{tag_key_id}/tag-values/{tag_value_id}',
    parents: async tenant => ({ tag_key_id: await newTagKey(tenant) }),
    wanted: () => ({ value: named('value'), description: 'One of them' }),
    changed: () => ({ description: '' }),
    named: { member: 'value' },
  },
  'tag of a deployment': {
    item: '/v2/deployments/{deployment_id}/tags/{tag_value_id}',
    parents: async tenant => ({
      deployment_id: await newDeployment(tenant),
      first: await newTagValue(tenant),
      second: await newTagValue(tenant),
    }),
    wanted: ({ first }) => ({ tag_value_ids: [first] }),
    changed: ({ second }) => ({ tag_value_ids: [second] }),
    read: async (tenant, { deployment_id }, id) => {
      const { resources } = (await tenant.get(`/v2/deployments/${deployment_id}/tags`)).body
      const tag = resources.find((one: Members) => one.tag_value_id === id)
      return tag && { ...tag, tag_value_ids: [tag.tag_value_id] }
    },
    idOf: ({ first }) => first!,
    isOverwritten: true,
  },
  tagging: {
    item: '/workspaces/current/taggings/{tagging_id}',
    parents: async tenant => ({
      tag_value_id: await newTagValue(tenant),
      resource_id: await newProject(tenant),
      other: await newProject(tenant),
    }),
    wanted: ({ tag_value_id, resource_id }) => ({ tag_value_id, resource_id, resource_type: 'project' }),
    changed: ({ other }) => ({ resource_id: other }),
    read: async (tenant, { resource_id }, id) => {
      const query = `resource_type=project&resource_id=${resource_id}`
      const keys = (await tenant.get(`/workspaces/current/tags/resource?${query}`)).body as TaggedKey[]
      return keys.flatMap(({ values }) => values.flatMap(({ taggings }) => taggings)).find(one => one.id === id)
    },
    isOverwritten: true,
  },
  'trusted issuer': {
    item: '/v2/trusted-issuers/{trusted_issuer_id}',
    wanted: () => ({
      name: named('issuer'),
      issuer: 'https://token.actions.githubusercontent.com',
      subject: 'repo:acme/shop:ref:refs/heads/main',
      claims: { event_name: 'push' },
      role_id: '00000000-0000-4000-8000-000000000002',
    }),
    changed: () => ({ name: named('other'), subject: 'repo:acme/shop:*' }),
    named: { member: 'name' },
  },
  listener: {
    item: '/v2/listeners/{listener_id}',
    wanted: () => ({
      compute_type: 'k8s',
      compute_id: named('cluster'),
      compute_config: { k8s_namespaces: ['b', 'a'] },
    }),
    changed: () => ({ compute_config: { k8s_namespaces: ['c', 'a'] } }),
    named: { member: 'compute_id' },
  },
  webhook: {
    item: '/v2/webhooks/{webhook_id}',
    wanted: () => ({
      url: `https://ci.example.com/${unusedId()}`,
      description: 'CI',
      enabled: false,
      event_types: ['revision.*', 'deployment.*'],
    }),
    changed: () => ({ description: 'The CI', event_types: ['deployment.*'] }),
    named: { member: 'url', query: 'url' },
  },
  drain: {
    item: '/v2/drains/{drain_id}',
    wanted: () => ({
      name: named('drain'),
      kind: 'otlp',
      url: 'https://otel.example.com:4318',
      headers: { Authorization: 'a secret of theirs' },
      signals: ['metrics', 'logs'],
      filter: { min_level: 'INFO', processes: ['web'], contains: null },
    }),
    changed: () => ({ name: named('drain'), signals: ['logs'], headers: { Authorization: 'another secret' } }),
    named: { member: 'name' },
    secrets: { members: ['headers'], fingerprints: ({ headers_fingerprint: of }) => of },
  },
  'alert rule': {
    item: '/v2/alert-rules/{alert_rule_id}',
    wanted: () => ({
      name: named('rule'),
      condition: {
        kind: 'metric',
        metric: 'error_rate',
        operator: 'above',
        threshold: 5,
        clear_threshold: null,
        window_seconds: 300,
        min_requests: 20,
      },
      severity: 'warning',
    }),
    changed: () => ({ name: named('rule'), severity: 'critical' }),
    named: { member: 'name' },
  },
  'OAuth provider': {
    item: '/v2/auth/providers/{provider_id}',
    wanted: () => ({
      provider_id: named('provider'),
      name: 'GitHub',
      client_id: 'Iv1.8a61f9b3a7aba766',
      client_secret: 'a secret of theirs',
      auth_url: 'https://github.com/login/oauth/authorize',
      token_url: 'https://github.com/login/oauth/access_token',
      scopes: ['user:email', 'read:user'],
    }),
    changed: () => ({ name: 'GitHub Enterprise', scopes: ['repo'], client_secret: 'another secret' }),
    idMember: 'provider_id',
    named: { member: 'provider_id' },
    secrets: { members: ['client_secret'], fingerprints: ({ client_secret_fingerprint: of }) => of },
    withSecret: ['token_endpoint_auth_method'],
  },
  'git host integration': {
    item: '/v1/integrations/forge/githost/{integration_id}',
    parents: async () => {
      foreignServers.fetch = makeFakeFetch(GITEA.sites)
      GITEA.accounts.set('token-of-acme', { id: 1, login: 'acme', repositories: makeRepositories(1) })
      return {}
    },
    wanted: () => ({
      host: 'gitea',
      base_url: 'https://gitea.example.com',
      token: 'token-of-acme',
      webhook_secret: 'a-long-random-secret',
    }),
    changed: () => ({}),
    secrets: { members: ['token', 'webhook_secret'], fingerprints: () => null },
  },
  'model configuration': {
    item: '/v1/model-configurations/{configuration_id}',
    wanted: () => ({
      name: named('model'),
      provider: 'openai',
      model: 'gpt-4.1-mini',
      auth_type: 'secret',
      secret: 'hush',
      input_price: 0.4,
      output_price: 1.6,
    }),
    changed: () => ({ model: 'gpt-4.1', input_price: null, auth_type: 'secret', secret: 'changed' }),
    named: { member: 'name' },
    secrets: { members: ['secret'], fingerprints: ({ secret_fingerprint }) => secret_fingerprint },
    withSecret: ['auth_type'],
  },
  'model budget': {
    item: '/v1/model-budgets/{budget_id}',
    wanted: () => ({ period: 'month', limit_usd: 50.5, limit_calls: 100_000 }),
    changed: () => ({ limit_usd: 100, limit_calls: null }),
  },
  project: {
    item: '/sessions/{session_id}',
    wanted: () => ({ name: named('project'), description: 'Answers', extra: { metadata: { b: 1, a: [2, 1] } } }),
    changed: () => ({ name: named('other'), description: '' }),
    named: { member: 'name' },
  },
  view: {
    item: '/sessions/{session_id}/views/{view_id}',
    parents: async tenant => ({ session_id: await newProject(tenant) }),
    wanted: () => ({
      display_name: named('view'),
      filter_string: 'eq(is_root, true)',
      type: 'runs',
      description: null,
    }),
    changed: () => ({ filter_string: null, description: 'All' }),
    named: { member: 'display_name' },
  },
  'insights configuration': {
    item: '/sessions/{session_id}/insights/configs/{config_id}',
    parents: async tenant => ({ session_id: await newProject(tenant) }),
    wanted: () => ({ name: named('config'), config: { model: 'none', last_n_hours: 168 }, schedule_cron: '0 8 * * 1' }),
    changed: () => ({ schedule_cron: null, config: { model: 'none', last_n_hours: 24 } }),
    named: { member: 'name', resources: 'configs' },
  },
  'feedback configuration': {
    item: '/feedback-configs',
    wanted: () => ({ feedback_key: named('key'), feedback_config: { type: 'continuous', min: 0, max: 5 } }),
    changed: () => ({ feedback_config: { type: 'continuous', min: 0, max: 10 } }),
    idMember: 'feedback_key',
    keyQuery: 'feedback_key',
    read: async (tenant, _, id) => (await tenant.get(`/feedback-configs?key=${id}`)).body[0],
    named: { member: 'feedback_key', query: 'key' },
    isOverwritten: true,
  },
  dataset: {
    item: '/datasets/{dataset_id}',
    wanted: () => ({
      name: named('dataset'),
      description: 'Capitals',
      data_type: 'kv',
      inputs_schema_definition: { type: 'object', properties: { b: {}, a: {} } },
    }),
    changed: () => ({ name: named('other'), description: null, inputs_schema_definition: null }),
    named: { member: 'name' },
  },
  'share of a dataset': {
    item: '/datasets/{dataset_id}/share',
    create: { method: 'put' },
    parents: async tenant => ({ dataset_id: await newDataset(tenant) }),
    idMember: 'dataset_id',
    wanted: () => ({}),
    changed: () => ({}),
    isOverwritten: true,
    destroysQuietly: true,
    unlike: ['share_token'],
    read: async (tenant, { dataset_id }) => (await tenant.get(`/datasets/${dataset_id}/share`)).body ?? undefined,
  },
  example: {
    item: '/examples/{example_id}',
    parents: async tenant => ({ dataset_id: await newDataset(tenant) }),
    accepts: ['inputs', 'outputs', 'metadata'],
    unlike: ['name'],
    wanted: ({ dataset_id }) => ({ dataset_id, inputs: { country: 'France' }, outputs: { capital: 'Paris' } }),
    changed: () => ({ inputs: { country: 'Italy' }, outputs: { capital: 'Rome' } }),
  },
  'comparative experiment': {
    item: '/datasets/comparative/{comparative_experiment_id}',
    parents: async tenant => {
      const reference_dataset_id = await newDataset(tenant)
      return {
        reference_dataset_id,
        experiment: await idOf(tenant.post('/sessions', { name: named('e'), reference_dataset_id })),
      }
    },
    wanted: ({ experiment }) => ({ name: named('comparison'), experiment_ids: [experiment] }),
    changed: () => ({ name: named('other') }),
    read: async (tenant, { reference_dataset_id }, id) =>
      findComparison((await tenant.get(`/datasets/${reference_dataset_id}/comparative?id=${id}`)).body),
    named: { member: 'name', list: '/datasets/{reference_dataset_id}/comparative' },
  },
  'annotation queue': {
    item: '/annotation-queues/{queue_id}',
    wanted: () => ({
      name: named('queue'),
      description: 'Answers',
      num_reviewers_per_item: 2,
      rubric_items: [{ feedback_key: 'correct', description: 'Is the answer correct?' }],
    }),
    changed: () => ({ description: null, num_reviewers_per_item: 1, rubric_items: [] }),
    named: { member: 'name' },
  },
  'reviewer of a queue': {
    item: '/v1/platform/annotation-queues/{queue_id}/reviewers/{identity_id}',
    parents: async tenant => ({
      queue_id: await idOf(tenant.post('/annotation-queues', { name: named('queue') })),
      first: await newMembership(tenant),
      second: await newMembership(tenant),
    }),
    wanted: ({ first }) => ({ identity_id: first }),
    changed: ({ second }) => ({ identity_id: second }),
    idOf: ({ first }) => first!,
    isOverwritten: true,
    destroysQuietly: true,
    read: async (tenant, { queue_id }, id) => {
      const { assigned_reviewers } = (await tenant.get(`/annotation-queues/${queue_id}`)).body
      return assigned_reviewers.some((one: Members) => one.id === id) ? { identity_id: id } : undefined
    },
  },
  rule: {
    item: '/runs/rules/{rule_id}',
    parents: async tenant => ({ session_id: await newProject(tenant) }),
    wanted: ({ session_id }) => ({
      display_name: named('rule'),
      sampling_rate: 1,
      session_id,
      filter: 'eq(status, "error")',
      is_enabled: true,
    }),
    changed: () => ({ sampling_rate: 0.5, filter: null, is_enabled: false }),
    named: { member: 'display_name' },
  },
  evaluator: {
    item: '/v1/platform/evaluators/{evaluator_id}',
    parents: async tenant => ({ model: await newModel(tenant) }),
    wanted: ({ model }) => ({ name: named('evaluator'), type: 'llm', llm_evaluator: makeJudge(model!) }),
    changed: () => ({ name: named('other') }),
    named: { member: 'name', resources: 'evaluators' },
    created: ({ evaluator }) => evaluator as Members,
    unlike: ['llm_evaluator'],
    computed: ['evaluator_id', 'use_corrections_dataset', 'variable_mapping'].map(name => `llm_evaluator.${name}`),
  },
  member: {
    item: '/orgs/current/members/{member_id}',
    asOwner: true,
    wanted: () => ({ email: `${unusedId()}@example.com`, full_name: 'Ada Lovelace' }),
    changed: () => ({ full_name: 'Ada King' }),
    named: { member: 'email', query: 'email' },
  },
  membership: {
    item: '/workspaces/current/members/{membership_id}',
    parents: async tenant => ({ member_id: await newMember(tenant) }),
    wanted: ({ member_id }) => ({ member_id, role_id: '00000000-0000-4000-8000-000000000002' }),
    changed: () => ({ role_id: '00000000-0000-4000-8000-000000000003' }),
  },
  role: {
    item: '/orgs/current/roles/{role_id}',
    asOwner: true,
    wanted: () => ({
      display_name: named('role'),
      permissions: ['deployments:update', 'deployments:read'],
      description: '',
    }),
    changed: () => ({ description: 'Reads', permissions: ['deployments:read'] }),
    named: { member: 'display_name' },
  },
  workspace: {
    item: '/workspaces/{workspace_id}',
    asOwner: true,
    wanted: () => ({ display_name: named('workspace') }),
    changed: () => ({ display_name: named('other') }),
    named: { member: 'display_name' },
  },
  'API key of a workspace': {
    item: '/workspaces/current/api-keys/{key_id}',
    wanted: makeKey,
    changed: () => ({ description: 'Another' }),
    named: { member: 'description', query: 'description' },
  },
  'API key of an organization': {
    item: '/orgs/current/api-keys/{key_id}',
    asOwner: true,
    wanted: makeKey,
    changed: () => ({ description: 'Another' }),
    named: { member: 'description', query: 'description' },
  },
  'access policy': {
    item: `${POLICIES}/{access_policy_id}`,
    asOwner: true,
    wanted: makePolicy,
    changed: () => ({ effect: 'allow' }),
    named: { member: 'name', resources: 'access_policies' },
  },
  'access policy of a role': {
    item: `${POLICIES}/roles/{role_id}/access-policies/{access_policy_id}`,
    asOwner: true,
    parents: async tenant => ({
      role_id: await newRole(tenant),
      first: await newPolicy(tenant),
      second: await newPolicy(tenant),
    }),
    wanted: ({ first }) => ({ access_policy_ids: [first] }),
    changed: ({ second }) => ({ access_policy_ids: [second] }),
    idOf: ({ first }) => first!,
    isOverwritten: true,
    read: async (tenant, { role_id }, id) => {
      const { role_ids } = (await tenant.owner.get(`${POLICIES}/${id}`)).body
      return role_ids.includes(role_id) ? { access_policy_ids: [id] } : undefined
    },
  },
}

/** Operations that delete what cannot be declared, and why. */
export const NOT_DECLARED: Record<string, string> = {
  ...Object.fromEntries(
    ['Datasets', 'Deployments', 'Examples', 'OnlineEvaluators', 'Projects', 'Queues'].map(what => [
      `delete${what}`,
      'several at once',
    ]),
  ),
  deleteAlertMute: 'a time that passes',
  deleteChannel: 'the secret of its webhook is shown once',
  deleteDeployHook: 'its URL is a secret that is shown once',
  deleteExampleOfDataset: 'the example is declared by its own path',
  deleteFeedback: 'feedback is data, like runs',
  deleteInsightJob: 'a report, made once',
  deleteQueueRun: 'items of queues are data, like runs',
  deleteSnapshot: 'agents make snapshots',
  deleteThroughModelProxy: 'a resource of another server',
  deleteWorkspaceSecret: 'the key of a model configuration, which is declared',
  disconnectAccount: 'people connect their accounts',
  endSession: 'a session of the caller',
  releaseHold: 'set by a rollback or a failed rollout',
  removePreview: 'created by a pull request, a branch or a request',
  removeRollout: 'a policy of its deployment, which is declared',
  revokeBypass: 'its secret is shown once',
  revokeOwnKey: 'the key of the caller',
  signOut: 'a session of the caller',
  unshareRun: 'runs are data',
  unshareThread: 'runs are data',
  unshareTrace: 'runs are data',
}
