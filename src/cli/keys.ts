// The API keys of the workspace, or with --organization those of the organization.
import type { Command } from 'commander'
import type { Item } from '../client/client.ts'
import type { Session } from './session.ts'

export type Key = Item<'GET /workspaces/current/api-keys'>
export type KeyScope = { organization?: boolean }

export const withScope = (command: Command): Command => command.option('--organization', 'keys of the organization')

export const pathOf = ({ organization }: KeyScope) =>
  organization ? ('/orgs/current/api-keys' as const) : ('/workspaces/current/api-keys' as const)

export const readKeys = ({ client, signal }: Session, scope: KeyScope) =>
  client.list(`GET ${pathOf(scope)}`, { query: { limit: 100 }, signal })
