// The faults of a refused request, by the member that they are about (pure).
import { ApiError } from '../../client/errors.ts'

/** By the path of the member, such as `source_config.custom_url` or `secrets.2.name`. */
export type Faults = ReadonlyMap<string, string>

export const NO_FAULTS: Faults = new Map()

export function listFaults(error: Error | undefined): Faults {
  if (!(error instanceof ApiError)) return NO_FAULTS
  const faults = new Map<string, string>()
  for (const { loc, msg } of error.errors) {
    const path = loc.slice(1).join('.')
    faults.set(path, faults.has(path) ? `${faults.get(path)}; ${msg}` : msg)
  }
  return faults
}

/** The faults of a member and of the members inside it, with their paths. */
export function faultAt(faults: Faults, path: string): string | undefined {
  const found = [...faults].flatMap(([at, msg]) =>
    at === path ? [msg] : at.startsWith(`${path}.`) ? [`\`${at.slice(path.length + 1)}\` ${msg}`] : [],
  )
  return found.length > 0 ? found.join('; ') : undefined
}
