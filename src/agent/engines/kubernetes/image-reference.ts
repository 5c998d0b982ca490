// The parts of an image's name: who keeps it, where there, and which one it is. Pure.
import { type RegistryLogin, registryHost, registryOf } from '../../images/registry-logins.ts'

export type Reference = {
  /** As it was written, without tag and digest. */
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
  // What its hub has no owner for, everybody calls by its name alone.
  const repository = registry === DOCKER_HUB && !path.includes('/') ? `library/${path}` : path
  return { name, registry, repository, tag, digest }
}

export const isInRepository = ({ registry, repository }: Pick<Reference, 'registry' | 'repository'>, place: string) =>
  `${registry}/${repository}/`.startsWith(`${place}/`)

/** Those that are for this image, the most particular first. A path may be that of an old API. */
export function loginsFor({ registry, repository }: Reference, logins: RegistryLogin[]): RegistryLogin[] {
  const placeOf = ({ serveraddress }: RegistryLogin) => {
    const path = serveraddress.replace(/^https?:\/\//, '').replace(/^[^/]*\/?/, '')
    return [registryHost(serveraddress), ...path.split('/').filter(part => part && !/^v\d$/.test(part))].join('/')
  }
  return logins
    .filter(login => isInRepository({ registry, repository }, placeOf(login)))
    .sort((one, other) => placeOf(other).length - placeOf(one).length)
}
