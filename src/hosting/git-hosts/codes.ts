// Error codes of git hosts.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const gitHostsCodes = {
  state_invalid: {
    status: 400,
    title: 'Link no longer valid',
    problem: 'This link was already used, is older than ten minutes, or was never issued.',
    remedy: 'Go back to the application and connect again.',
  },
  integration_unknown: {
    status: 400,
    title: 'Unknown integration',
    problem: '`source_config.integration_id` is not an integration of this workspace.',
    remedy: 'GET /v1/integrations/forge/githost/install lists them.',
  },
  githost_app_missing: {
    status: 400,
    title: 'GitHub App not configured',
    problem: 'This installation has no GitHub App for that host.',
    remedy:
      'Connect your own App with POST /v1/integrations/forge/githost, or ask the operator to set up a GitHub App.',
  },
  installation_requested: {
    status: 400,
    title: 'Approval pending',
    problem: 'An owner of the account must approve the installation first.',
    remedy: 'Connect again after the approval.',
  },
  installation_unproven: {
    status: 403,
    title: 'Ownership not confirmed',
    problem: 'The git host did not confirm that you have access to this installation and all its repositories.',
    remedy: 'Connect it as an administrator of the account.',
  },
  integration_not_found: {
    status: 404,
    title: 'Integration not found',
    problem: 'This workspace has no such git host integration.',
    remedy: 'GET /v1/integrations/forge/githost/install lists the integrations.',
  },
  repository_not_found: {
    status: 404,
    title: 'Repository not found',
    problem: 'The repository does not exist, or this integration has no access to it.',
    remedy: 'Grant the installation or the account access at the git host.',
  },
  integration_taken: {
    status: 409,
    title: 'Already connected',
    problem: 'This workspace already has this integration.',
    remedy: 'Use it, or delete it first.',
  },
  integration_other_account: {
    status: 409,
    title: 'Credential of another account',
    problem: 'The credential is not of the account or App of this integration.',
    remedy: 'Send one of the same account, or connect the other account as an integration of its own.',
  },
  integration_claimed: {
    status: 409,
    title: 'Connected to another workspace',
    problem: 'This installation belongs to another workspace.',
    remedy: 'Delete the integration there, or install the App on another account.',
  },
  integration_suspended: {
    status: 409,
    title: 'Suspended at the git host',
    problem: 'The git host has suspended the installation of this integration.',
    remedy: 'Ask an owner of the account to resume it there.',
  },
  integration_revoked: {
    status: 409,
    title: 'Revoked at the git host',
    problem: 'The installation of this integration no longer exists at the git host.',
    remedy: 'Connect it again.',
  },
  host_key_unknown: {
    status: 409,
    title: 'Not the refused host key',
    problem: 'The host does not show a key with this fingerprint instead of a pinned one.',
    remedy: 'Read `ssh.refused_host_key` of the integration, and compare it with what the operator of the host says.',
  },
  githost_refused: {
    status: 422,
    title: 'Git host refused access',
    problem: 'The git host rejected the credentials of this integration, or they lack a permission.',
    remedy:
      'Grant what the host asks for: a token of Gitea needs the scopes read:user, write:repository and write:issue, ' +
      'and one of GitLab the scope api. ' +
      'PATCH /v1/integrations/forge/githost/{integration_id} replaces it.',
  },
  githost_unsupported: {
    status: 422,
    title: 'Not possible at this git host',
    problem: 'This kind of git host has no such function.',
    remedy: 'The `capabilities` of the integration say what it can do.',
  },
  githost_rate_limited: {
    status: 429,
    title: 'Rate-limited by the git host',
    problem: 'The git host rate-limited this integration.',
    remedy: 'Retry after the time in `Retry-After`.',
  },
} as const satisfies ErrorCodes
