// Parses image references into registry, repository, tag and digest, and finds the logins for them. Pure.
import { type RegistryLogin, registryHost, registryOf } from '../../images/registry-logins.ts'

export type Reference = {
  /** The reference as written, without tag and digest. */
  name: string
  registry: string
  repository: string
  tag: string
  digest: string | null
}

const DOCKER_HUB = 'docker.io'

export function parseReference(image: string): Reference {
  const [tagged = '', digest = null] = image.split('@')
  const [, tag = 'latest'] = /:([^:/]+)$/.exec(tagged) ?? []
  const name = tagged.replace(/:[^:/]+$/, '')
  const registry = registryOf(name)
  const path = name.startsWith(`${registry}/`) ? name.slice(registry.length + 1) : name
  // Official images of Docker Hub are written without `library/`.
  const repository = registry === DOCKER_HUB && !path.includes('/') ? `library/${path}` : path
  return { name, registry, repository, tag, digest }
}

const isInRepository = ({ registry, repository }: Pick<Reference, 'registry' | 'repository'>, prefix: string) =>
  `${registry}/${repository}/`.startsWith(`${prefix}/`)

/** The logins for an image, the most specific path first. A path like `/v1/` is that of an old API. */
export function loginsFor({ registry, repository }: Reference, logins: RegistryLogin[]): RegistryLogin[] {
  const prefixOf = ({ serveraddress }: RegistryLogin) => {
    const path = serveraddress.replace(/^https?:\/\//, '').replace(/^[^/]*\/?/, '')
    return [registryHost(serveraddress), ...path.split('/').filter(part => part && !/^v\d$/.test(part))].join('/')
  }
  return logins
    .filter(login => isInRepository({ registry, repository }, prefixOf(login)))
    .sort((a, b) => prefixOf(b).length - prefixOf(a).length)
}
