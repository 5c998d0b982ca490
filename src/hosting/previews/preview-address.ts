// The name and the address of a preview (pure).
import { sha256Hex } from '../../kernel/crypto/digest.ts'

const MAX_NAME_LENGTH = 63
const HASH_LENGTH = 8
/** Between a branch or commit and the name of the deployment. Names of new deployments do not have it. */
const LABEL_SEPARATOR = '--'
/** The least that is left of a long branch beside a long name. */
const MIN_SLUG_LENGTH = 20

function trimHyphens(text: string): string {
  let end = text.length
  while (text[end - 1] === '-') end--
  return text.slice(0, end).replace(/^-+/, '')
}
const cut = (text: string, length: number): string => trimHyphens(text.slice(0, length))

/** The names of a pull request's preview, best first. The second is for where a deployment has the first. */
export function pullNames(parent: string, number: number): string[] {
  const suffix = `-pr-${number}`
  const nameWith = (end: string) => `${cut(parent, MAX_NAME_LENGTH - end.length)}${end}`
  return [nameWith(suffix), nameWith(`${suffix}-${sha256Hex(`${parent} ${number}`).slice(0, HASH_LENGTH)}`)]
}

/**
 * The names of a branch's preview, best first. The second has a hash of the branch: for one that reads like another
 * one, as `feature/a` and `feature-a` do. A long name has the hash always.
 */
export function branchNames(parent: string, branch: string): string[] {
  const slug = trimHyphens(branch.toLowerCase().replace(/[^a-z0-9]+/g, '-'))
  const plain = `${slug}${LABEL_SEPARATOR}${parent}`
  const room = MAX_NAME_LENGTH - LABEL_SEPARATOR.length - HASH_LENGTH - 1
  const name = cut(parent, room - Math.min(slug.length, MIN_SLUG_LENGTH))
  // Two parents may begin alike.
  const hash = sha256Hex(name === parent ? branch : `${branch} ${parent}`).slice(0, HASH_LENGTH)
  const shortSlug = cut(slug, room - name.length)
  const hashed = `${shortSlug ? `${shortSlug}-` : ''}${hash}${LABEL_SEPARATOR}${name}`
  return slug && plain.length <= MAX_NAME_LENGTH ? [plain, hashed] : [hashed]
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
