// What the caller may do in a workspace (pure).
import type { Me } from './client.ts'

type Permission = Me['permissions'][number]

/** Why a control is locked, or undefined if the role allows it. */
export function refusalOf(me: Me, workspace: string, permission: Permission): string | undefined {
  const own = me.workspaces.find(({ id }) => id === workspace)?.permissions ?? me.permissions
  return own.includes(permission) ? undefined : `Your role does not have the permission ${permission}.`
}
