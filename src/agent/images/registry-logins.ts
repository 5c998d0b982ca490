// Logins of container registries: read from a Docker configuration, encoded for an engine, matched to an image. Pure.
import { PermanentError } from '../engine.ts'

const DOCKER_HUB = 'docker.io'
/** `serveraddress` is the host of a registry, with an optional path. */
export type RegistryLogin = { username: string; password: string; serveraddress: string }

/** The value of X-Registry-Auth. Engines accept only base64url with padding, which Node's `base64url` leaves out. */
export const encodeLogin = (login: RegistryLogin): string =>
  Buffer.from(JSON.stringify(login)).toString('base64').replaceAll('+', '-').replaceAll('/', '_')

type DockerConfigEntry = { auth?: string; username?: string; password?: string }

/** `origin` names the configuration in the error. */
export function parseDockerConfig(origin: string, text: string): RegistryLogin[] {
  try {
    const { auths = {} } = JSON.parse(text) as { auths?: Record<string, DockerConfigEntry> }
    return Object.entries(auths).map(([serveraddress, entry]) => {
      const [username, password] = usernameAndPassword(entry)
      return { username, password, serveraddress }
    })
  } catch {
    throw new PermanentError(`${origin} is not a valid Docker configuration in JSON. Correct it.`)
  }
}

function usernameAndPassword({ auth, username = '', password = '' }: DockerConfigEntry): [string, string] {
  if (!auth) return [username, password]
  const credentials = Buffer.from(auth, 'base64').toString()
  const colon = credentials.indexOf(':')
  return [credentials.slice(0, colon), credentials.slice(colon + 1)]
}

export const registryHost = (server: string) => {
  const host = server.replace(/^https?:\/\//, '').replace(/\/.*/s, '')
  return host === 'index.docker.io' || host === 'registry-1.docker.io' ? DOCKER_HUB : host
}

/** The first path segment is a registry only if it looks like a host. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/')
  return rest.length > 0 && (/[.:]/.test(first) || first === 'localhost') ? first : DOCKER_HUB
}
