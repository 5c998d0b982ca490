// Routes of model configurations, the settings of the proxy, usage and budgets.
import type { Code } from '../../kernel/http/codes.ts'
import { slice } from '../../kernel/http/routes.ts'
import { namedPage, Page } from '../../protocol/wire.ts'
import * as budgets from './budgets.ts'
import * as configurations from './configurations.ts'
import { changeProxySettings, readProxySettings } from './proxy-settings.ts'
import * as s from './schema.ts'
import { testConfiguration } from './test-call.ts'
import * as u from './usage.schema.ts'
import { readUsage } from './usage.ts'

const SAVING: Code[] = ['blocked_url', 'model_url_not_allowed', 'model_exists', 'deployment_not_found']

export const modelRoutes = slice(
  'Models',
  'Models that a workspace calls through this installation: configurations, usage, budgets, and what is allowed.',
)
  .get('/v1/model-configurations', {
    id: 'listModelConfigurations',
    summary: 'List the model configurations of this workspace',
    description: 'Newest first. Secrets are never shown. `proxy_url` of a configuration is where its calls are sent.',
    query: namedPage('name'),
    reply: s.ConfigurationList,
    verb: configurations.listConfigurations,
  })
  .post('/v1/model-configurations', {
    id: 'createModelConfiguration',
    summary: 'Create a model configuration',
    description:
      'The `secret` is stored encrypted and never shown. Test it with `POST ' +
      '/v1/model-configurations/{configuration_id}/test` before applications use it.',
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
    description: 'It has the outcome of the last test as `last_test`. The secret is never shown.',
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
    description:
      'Sums over the whole window, by day and by caller, and a page of single days. Cost is null where no call had a ' +
      'price.',
    query: u.UsageQuery,
    reply: u.Usage,
    verb: readUsage,
  })
  .get('/v1/model-budgets', {
    id: 'listModelBudgets',
    summary: 'List the budgets for calls of models, and what is spent',
    description:
      'Newest first. `spent` is that of the current period. A call that begins when `is_spent` is true is refused ' +
      'with `model_budget_spent`.',
    query: Page,
    reply: u.BudgetList,
    verb: budgets.listBudgets,
  })
  .post('/v1/model-budgets', {
    id: 'createModelBudget',
    summary: 'Limit the calls of models of the workspace or of a deployment',
    description:
      'Set at least one limit. What the current period used before counts. A workspace or a deployment has one ' +
      'budget for each `period`.',
    body: u.NewBudget,
    status: 201,
    reply: u.Budget,
    errors: ['model_budget_exists', 'deployment_not_found', 'workspace_not_found', 'quota_full'],
    verb: budgets.createBudget,
  })
  .get('/v1/model-budgets/{budget_id}', {
    id: 'readModelBudget',
    summary: 'Read a budget, and what is spent',
    description:
      '`spent` is that of the current period. A call that begins when `is_spent` is true is refused with ' +
      '`model_budget_spent`.',
    params: u.BudgetRef,
    reply: u.Budget,
    errors: ['model_budget_not_found'],
    versioned: true,
    verb: budgets.readBudget,
  })
  .patch('/v1/model-budgets/{budget_id}', {
    id: 'changeModelBudget',
    summary: 'Change the limits of a budget',
    description: 'It holds from the next call on. Null removes a limit, and one limit has to remain.',
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
    description: 'Calls are no longer limited by it from the next one on. The recorded usage stays.',
    params: u.BudgetRef,
    errors: ['model_budget_not_found'],
    versioned: true,
    verb: budgets.deleteBudget,
  })
  .get('/orgs/current/model-proxy', {
    id: 'readModelProxySettings',
    summary: 'Read what the organization allows for calls of models',
    description:
      'Where nothing was set, the answer has the defaults and `updated_at` is null. `jwks_url`, `header` and ' +
      '`issuer` say how the server of a model verifies tokens.',
    reply: s.ProxySettings,
    versioned: true,
    verb: readProxySettings,
  })
  .patch('/orgs/current/model-proxy', {
    id: 'changeModelProxySettings',
    summary: 'Change what the organization allows for calls of models',
    description:
      'It holds for all workspaces, from the next call on. With an `audience`, `allowed_urls` has to be a list, so ' +
      'that no other server gets a token.',
    body: s.ProxySettingsPatch,
    reply: s.ProxySettings,
    errors: ['model_audience_unbound'],
    versioned: true,
    verb: changeProxySettings,
  })
