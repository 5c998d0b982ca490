// Error codes of models.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const modelsCodes = {
  model_required: {
    status: 400,
    title: 'Model required',
    problem: 'This workspace has no model configuration for this.',
    remedy: 'Create one with POST /v1/model-configurations, or name an existing one.',
  },
  model_budget_spent: {
    status: 402,
    title: 'Budget spent',
    problem: 'A budget for calls of models is spent.',
    remedy: 'Wait for the end of its period, or raise its limit: PATCH /v1/model-budgets/{budget_id}.',
  },
  model_token_expired: {
    status: 401,
    title: 'Expired token',
    problem: 'This token for models has expired.',
    remedy: 'Read the file again before each call: the token in it is renewed every few minutes.',
  },
  model_proxy_off: {
    status: 403,
    title: 'Model calls are off',
    problem: 'This organization does not allow calls of models.',
    remedy: 'Ask an Admin of the organization to turn them on: PATCH /orgs/current/model-proxy with `enabled` true.',
  },
  model_audience_unbound: {
    status: 400,
    title: 'Audience without a list of URLs',
    problem:
      'With an `audience`, the server of every allowed URL gets tokens for it, so `allowed_urls.mode` must be `list`.',
    remedy: 'Send `allowed_urls` with the mode `list` and the URLs of the servers that may get the tokens.',
  },
  model_url_not_allowed: {
    status: 403,
    title: 'URL of the model not allowed',
    problem: 'The settings of the organization do not allow calls to this URL.',
    remedy: 'Use an allowed one, or ask an Admin of the organization to allow it: PATCH /orgs/current/model-proxy.',
  },
  model_token_confined: {
    status: 403,
    title: 'Not with a token for models',
    problem: 'The token of an application calls the models of its workspace, and does nothing else.',
    remedy: 'Use an API key.',
  },
  provider_not_yours: {
    status: 403,
    title: 'Provider not owned by this workspace',
    problem: 'This workspace cannot change the provider, because other workspaces own or use it.',
    remedy: 'Use a key with `organization:manage-providers`.',
  },
  model_not_found: {
    status: 404,
    title: 'Model configuration not found',
    problem: 'This workspace has no such model configuration, or it is not open to this deployment.',
    remedy: 'GET /v1/model-configurations lists them, with the deployments that may use each.',
  },
  model_budget_not_found: {
    status: 404,
    title: 'Budget not found',
    problem: 'This workspace has no such budget.',
    remedy: 'GET /v1/model-budgets lists the budgets.',
  },
  model_exists: {
    status: 409,
    title: 'Model configuration exists',
    problem: 'This workspace already has a model configuration with this `name`.',
    remedy: 'Use it, or choose another name.',
  },
  model_budget_exists: {
    status: 409,
    title: 'Budget exists',
    problem: 'There already is a budget of this `period` for the workspace or the deployment.',
    remedy: 'Change that one, or choose another `period`.',
  },
  model_body_too_large: {
    status: 413,
    title: 'Request to the model too large',
    problem: 'The body is larger than the model proxy passes on.',
    remedy: 'Send less, or upload files to the provider directly.',
  },
  model_body_ambiguous: {
    status: 400,
    title: 'Body can be read in two ways',
    problem: 'A token says what this request asks of the model, and the model could read the body in another way.',
    remedy:
      'Send JSON in UTF-8 as `Content-Type: application/json`, without a `Content-Encoding`, and each member once.',
  },
  model_budget_empty: {
    status: 422,
    title: 'Budget without a limit',
    problem: 'A budget has at least one limit.',
    remedy: 'Send another limit, or delete the budget.',
  },
  model_secret_required: {
    status: 422,
    title: 'Secret required',
    problem: 'The secret is needed again: a change of `base_url` decides who receives it.',
    remedy: 'Send `auth_type` and `secret` in the same request.',
  },
  upstream_redirected: {
    status: 502,
    title: 'External server redirects',
    problem: 'The external server answered with a redirect, which is not followed.',
    remedy: 'Set the address that it redirects to.',
  },
  model_call_failed: {
    status: 502,
    title: 'Model call failed',
    problem: 'The server of the model refused the call or failed.',
    remedy: 'Check the secret, `base_url` and `model` of the configuration.',
  },
  model_answer_invalid: {
    status: 502,
    title: 'Answer of the model unusable',
    problem:
      'The server of the model answered with something that is no answer of a model, or does not fit the schema.',
    remedy: 'Check `base_url` and `model` of the configuration, or use another model.',
  },
} as const satisfies ErrorCodes
