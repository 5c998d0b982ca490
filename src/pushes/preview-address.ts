// How a preview is called and where it is served (pure).
const MAX_NAME_LENGTH = 63

/** The parent's name, cut so that the number has room. */
export function previewName(parent: string, number: number): string {
  const end = `-pr-${number}`
  let cut = parent.slice(0, MAX_NAME_LENGTH - end.length)
  while (cut.endsWith('-')) cut = cut.slice(0, -1)
  return `${cut}${end}`
}

/** Null where the installation does not say under which domain deployments are served. */
export const deploymentUrl = (domain: string | undefined, name: string): string | null =>
  domain ? `https://${name}.${domain}` : null
