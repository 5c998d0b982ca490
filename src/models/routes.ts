// Routes of model configurations, the settings of the proxy, usage and budgets.
import { slice } from '../kernel/routes.ts'
import { namedPage, Page } from '../protocol/wire.ts'
import * as budgets from './budgets.ts'
import * as configurations from './configurations.ts'
import { changeProxySettings, readProxySettings } from './proxy-settings.ts'
import * as s from './schema.ts'
import * as w from './secrets.schema.ts'
import { testConfiguration } from './test-call.ts'
import * as u from './usage.schema.ts'
import { readUsage } from './usage.ts'
import { listSecrets, storeSecrets } from './workspace-secrets.ts'

const SAVING = ['blocked_url', 'model_url_not_allowed', 'model_exists', 'deployment_not_found'] as const

export const modelRoutes = slice(
  'Models',
  'Models that a workspace calls through this installation: configurations, usage, budgets, and what is allowed.',
)
  .get('/v1/model-configurations', {
    id: 'listModelConfigurations',
    summary: 'List the model configurations of this workspace',
    query: namedPage('name'),
    reply: s.ConfigurationList,
    verb: configurations.listConfigurations,
  })
  .post('/v1/model-configurations', {
    id: 'createModelConfiguration',
    summary: 'Create a model configuration',
    body: s.NewConfiguration,
    status: 201,
    reply: s.Configuration,
    errors: [...SAVING, 'workspace_not_found', 'quota_full'],
    location: configuration => `/v1/model-configurations/${configuration.id}`,
    verb: configurations.createConfiguration,
  })
  .get('/v1/model-configurations/{configuration_id}', {
    id: 'readModelConfiguration',
    summary: 'Read a model configuration',
    params: s.ConfigurationRef,
    reply: s.Configuration,
    errors: ['model_not_found'],
    versioned: true,
    verb: configurations.readConfiguration,
  })
  .patch('/v1/model-configurations/{configuration_id}', {
    id: 'changeModelConfiguration',
    summary: 'Change a model configuration',
    description: 'A new `base_url` needs `auth_type` and `secret` again: who changes it must know the secret.',
    params: s.ConfigurationRef,
    body: s.ConfigurationPatch,
    reply: s.Configuration,
    errors: ['model_not_found', 'model_secret_required', ...SAVING],
    versioned: true,
    verb: configurations.changeConfiguration,
  })
  .delete('/v1/model-configurations/{configuration_id}', {
    id: 'deleteModelConfiguration',
    summary: 'Delete a model configuration',
    description: 'Its usage stays.',
    params: s.ConfigurationRef,
    errors: ['model_not_found'],
    versioned: true,
    verb: configurations.deleteConfiguration,
  })
  .post('/v1/model-configurations/{configuration_id}/test', {
    id: 'testModelConfiguration',
    summary: 'Call the model once, and say what is wrong if that fails',
    description: 'A small real call, which counts like any other. The outcome is kept as `last_test`.',
    params: s.ConfigurationRef,
    reply: s.TestOutcome,
    errors: ['model_not_found'],
    isReadOnly: true,
    callsExternalServers: true,
    verb: testConfiguration,
  })
  .get('/v1/model-usage', {
    id: 'readModelUsage',
    summary: 'Calls, tokens and cost by day, configuration and deployment',
    query: u.UsageQuery,
    reply: u.Usage,
    verb: readUsage,
  })
  .get('/v1/model-budgets', {
    id: 'listModelBudgets',
    summary: 'List the budgets for calls of models, and what is spent',
    query: Page,
    reply: u.BudgetList,
    verb: budgets.listBudgets,
  })
  .post('/v1/model-budgets', {
    id: 'createModelBudget',
    summary: 'Limit the calls of models of the workspace or of a deployment',
    body: u.NewBudget,
    status: 201,
    reply: u.Budget,
    errors: ['model_budget_exists', 'deployment_not_found', 'workspace_not_found', 'quota_full'],
    verb: budgets.createBudget,
  })
  .get('/v1/model-budgets/{budget_id}', {
    id: 'readModelBudget',
    summary: 'Read a budget, and what is spent',
    params: u.BudgetRef,
    reply: u.Budget,
    errors: ['model_budget_not_found'],
    versioned: true,
    verb: budgets.readBudget,
  })
  .patch('/v1/model-budgets/{budget_id}', {
    id: 'changeModelBudget',
    summary: 'Change the limits of a budget',
    params: u.BudgetRef,
    body: u.BudgetPatch,
    reply: u.Budget,
    errors: ['model_budget_not_found', 'model_budget_empty'],
    versioned: true,
    verb: budgets.changeBudget,
  })
  .delete('/v1/model-budgets/{budget_id}', {
    id: 'deleteModelBudget',
    summary: 'Delete a budget',
    params: u.BudgetRef,
    errors: ['model_budget_not_found'],
    versioned: true,
    verb: budgets.deleteBudget,
  })
  .get('/workspaces/current/secrets', {
    id: 'listWorkspaceSecrets',
    summary: 'List the model providers that this workspace can call, by the names of their keys',
    toleratesUnknown: true,
    reply: w.SecretList,
    verb: listSecrets,
  })
  .post('/workspaces/current/secrets', {
    id: 'storeWorkspaceSecrets',
    summary: 'Store keys of model providers',
    description: 'As published clients do it. `POST /v1/model-configurations` says more.',
    toleratesUnknown: true,
    body: w.NewSecrets,
    reply: w.SecretList,
    errors: ['model_url_not_allowed', 'model_exists', 'quota_full'],
    verb: storeSecrets,
  })
  .get('/orgs/current/model-proxy', {
    id: 'readModelProxySettings',
    summary: 'Read what the organization allows for calls of models',
    reply: s.ProxySettings,
    versioned: true,
    verb: readProxySettings,
  })
  .patch('/orgs/current/model-proxy', {
    id: 'changeModelProxySettings',
    summary: 'Change what the organization allows for calls of models',
    body: s.ProxySettingsPatch,
    reply: s.ProxySettings,
    errors: ['model_audience_unbound'],
    versioned: true,
    verb: changeProxySettings,
  })
