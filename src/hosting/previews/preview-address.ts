// The name and the address of a preview (pure).
const MAX_NAME_LENGTH = 63

export function previewName(parent: string, number: number): string {
  const suffix = `-pr-${number}`
  let prefix = parent.slice(0, MAX_NAME_LENGTH - suffix.length)
  while (prefix.endsWith('-')) prefix = prefix.slice(0, -1)
  return `${prefix}${suffix}`
}

/**
 * Chooses the address to show: the reported one if it is below the domain. A name that another workspace uses has a
 * suffix there, and the plain name is the address of the other one.
 */
export function shownUrl(domain: string | undefined, name: string, reported: string | null): string | null {
  const host = reported === null ? undefined : URL.parse(reported)?.hostname
  return domain && host?.endsWith(`.${domain}`) ? reported : (deploymentUrl(domain, name) ?? reported)
}

/** Null where `APPS_DOMAIN` is not set. */
export const deploymentUrl = (domain: string | undefined, name: string): string | null =>
  domain ? `https://${name}.${domain}` : null
