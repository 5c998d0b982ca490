// Ids of the built-in roles, which a migration inserts. Database functions use ADMIN and ORGANIZATION_ADMIN too.
export const ADMIN = '00000000-0000-4000-8000-000000000001'
export const EDITOR = '00000000-0000-4000-8000-000000000002'
export const VIEWER = '00000000-0000-4000-8000-000000000003'
export const ORGANIZATION_ADMIN = '00000000-0000-4000-8000-000000000004'
export const ORGANIZATION_USER = '00000000-0000-4000-8000-000000000005'

export const isBuiltInRole = (role: string): boolean =>
  [ADMIN, EDITOR, VIEWER, ORGANIZATION_ADMIN, ORGANIZATION_USER].includes(role)
