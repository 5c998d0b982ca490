// The name of an image as Docker reads it, and the credentials that `docker login` stored for its registry.
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

/** `reference`: a tag or a digest. */
export type ImageName = { host: string; repository: string; reference: string }
export type Credentials = { username: string; password: string }

const DOCKER_HUB = 'registry-1.docker.io'
const HUB_NAMES = ['docker.io', 'index.docker.io', 'registry.hub.docker.com']

export function parseImageName(image: string): ImageName {
  const [named = '', digest] = image.split('@')
  const slash = named.indexOf('/')
  const first = slash < 0 ? '' : named.slice(0, slash)
  const hasHost = first === 'localhost' || first.includes('.') || first.includes(':')
  const path = hasHost ? named.slice(slash + 1) : named
  const colon = path.indexOf(':')
  const repository = colon < 0 ? path : path.slice(0, colon)
  const reference = digest ?? (colon < 0 ? 'latest' : path.slice(colon + 1))
  if (hasHost && !HUB_NAMES.includes(first)) return { host: first, repository, reference }
  return { host: DOCKER_HUB, repository: repository.includes('/') ? repository : `library/${repository}`, reference }
}

/** Reads `auths` alone: a credential helper is a program, which is not run. */
export function readDockerCredentials(host: string): Credentials | undefined {
  const folder = process.env.DOCKER_CONFIG ?? join(homedir(), '.docker')
  const auths = readAuths(join(folder, 'config.json'))
  const names = host === DOCKER_HUB ? ['https://index.docker.io/v1/', ...HUB_NAMES] : [host, `https://${host}`]
  const auth = names.map(name => auths[name]?.auth).find(one => typeof one === 'string' && one !== '')
  if (auth === undefined) return undefined
  const text = Buffer.from(auth, 'base64').toString()
  const colon = text.indexOf(':')
  return colon < 0 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) }
}

function readAuths(file: string): Record<string, { auth?: string }> {
  try {
    return Object(JSON.parse(readFileSync(file, 'utf8')).auths)
  } catch {
    return {}
  }
}
