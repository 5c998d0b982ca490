// Versions of releases, such as 0.2.0 and 0.2.0-rc.1: their order, and which are supported together.

export const VERSION_PATTERN = /^0\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-rc\.([1-9]\d{0,8}))?$/

export type Version = { minor: number; patch: number; rc: number | null }

export function parseVersion(text: string): Version | undefined {
  const match = VERSION_PATTERN.exec(text)
  if (!match) return undefined
  const [, minor, patch, rc] = match
  return { minor: Number(minor), patch: Number(patch), rc: rc === undefined ? null : Number(rc) }
}

/** By semver: a release candidate comes before its release, and rc.10 after rc.9. */
export function compareVersions(a: Version, b: Version): number {
  if (a.minor !== b.minor) return a.minor - b.minor
  if (a.patch !== b.patch) return a.patch - b.patch
  return (a.rc ?? Number.MAX_SAFE_INTEGER) - (b.rc ?? Number.MAX_SAFE_INTEGER)
}

/** Agents before 0.2.0 report it. */
const UNVERSIONED = '1.0.0'
export const parseAgentVersion = (version: string | null | undefined): Version | undefined =>
  parseVersion(version === UNVERSIONED ? '0.1.0' : (version ?? ''))

export type Skew = 'same' | 'older' | 'too_old' | 'newer' | 'unknown'

/** Judges an agent or a command line by the control plane: they may have the minor number before, but not be newer. */
export function judgeSkew(version: string | null | undefined, controlPlane: string | undefined): Skew {
  const own = parseAgentVersion(version)
  const other = parseVersion(controlPlane ?? '')
  if (!own || !other) return 'unknown'
  const order = compareVersions(own, other)
  if (order === 0) return 'same'
  if (order > 0) return 'newer'
  return own.minor < other.minor - 1 ? 'too_old' : 'older'
}
