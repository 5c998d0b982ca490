// The name and the address of a preview (pure).
const MAX_NAME_LENGTH = 63

export function previewName(parent: string, number: number): string {
  const suffix = `-pr-${number}`
  let prefix = parent.slice(0, MAX_NAME_LENGTH - suffix.length)
  while (prefix.endsWith('-')) prefix = prefix.slice(0, -1)
  return `${prefix}${suffix}`
}

/** Null where `APPS_DOMAIN` is not set. */
export const deploymentUrl = (domain: string | undefined, name: string): string | null =>
  domain ? `https://${name}.${domain}` : null
