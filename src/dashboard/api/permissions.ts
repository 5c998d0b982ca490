// Permissions of the caller in the open workspace.
import { caller, type Me, workspaceId } from './client.ts'

export type Permission = Me['permissions'][number]

/** Explains why an action is unavailable. Undefined if the role of the caller allows it. */
export function explainMissing(me: Me, workspace: string, permission: Permission): string | undefined {
  const here = me.workspaces.find(({ id }) => id === workspace)
  return here?.permissions.includes(permission)
    ? undefined
    : `Your role here does not have the permission ${permission}. Ask an Admin of the workspace.`
}

/** The same for the caller in the open workspace. */
export const explainMissingHere = (permission: Permission): string | undefined =>
  caller.value && workspaceId.value ? explainMissing(caller.value, workspaceId.value, permission) : undefined
