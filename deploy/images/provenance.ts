// The provenance of an image: an in-toto statement with the provenance predicate of SLSA, version 1. It is not
// signed: the workflow of a release adds the signature of its own identity. https://slsa.dev/spec/v1.1/provenance
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Image } from './image-config.ts'
import { LOCK_FILE, type Lock, type Platform } from './lock-packages.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const BUILD_TYPE = 'urn:slipway:build-image:v1'

export const PROVENANCE_TYPE = 'application/vnd.in-toto+json'

type Subject = { name: string; digest: string }
type Source = { commit: string; hasChanges: boolean }

const digestOf = (digest: string) => ({ sha256: digest.slice('sha256:'.length) })
const hashFile = (file: string) => ({ sha256: createHash('sha256').update(fs.readFileSync(file)).digest('hex') })
const hexOf = (integrity: string) => Buffer.from(integrity.slice('sha512-'.length), 'base64').toString('hex')

export function describeProvenance(
  { name: target, hasTools }: Pick<Image, 'name' | 'hasTools'>,
  subjects: Subject[],
  { commit, hasChanges }: Source,
  platforms: Platform[],
  lock: Lock,
  env: Record<string, string | undefined> = process.env,
): object {
  const { GITHUB_SERVER_URL, GITHUB_REPOSITORY, GITHUB_WORKFLOW_REF, GITHUB_RUN_ID, GITHUB_RUN_ATTEMPT } = env
  const repository = GITHUB_REPOSITORY && `${GITHUB_SERVER_URL}/${GITHUB_REPOSITORY}`
  const debian = platforms.flatMap(platform => [...lock.libraries[platform], ...(hasTools ? lock.tools[platform] : [])])
  const npm = [...platforms.map(platform => lock.node[platform]), ...(hasTools ? [lock.npm] : [])]
  const dependencies = [
    { name: 'source', ...(repository && { uri: `git+${repository}@${commit}` }), digest: { gitCommit: commit } },
    { name: 'package-lock.json', digest: hashFile(join(ROOT, 'package-lock.json')) },
    { name: 'deploy/images/lock.json', digest: hashFile(LOCK_FILE) },
    ...npm.map(({ name, version, integrity }) => ({
      uri: `pkg:npm/${name}@${version}`,
      digest: { sha512: hexOf(integrity) },
    })),
    ...[...new Map(debian.map(({ path, sha256 }) => [path, sha256]))].map(([path, sha256]) => ({
      uri: `http://deb.debian.org/${path}`,
      digest: { sha256 },
    })),
  ]
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: subjects.map(({ name, digest }) => ({ name, digest: digestOf(digest) })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: BUILD_TYPE,
        externalParameters: { target, platforms, source: { commit, hasChanges } },
        internalParameters: { node: process.version },
        resolvedDependencies: dependencies,
      },
      runDetails: {
        builder: {
          id: GITHUB_WORKFLOW_REF ? `${GITHUB_SERVER_URL}/${GITHUB_WORKFLOW_REF}` : 'urn:slipway:own-machine',
        },
        ...(repository && {
          metadata: { invocationId: `${repository}/actions/runs/${GITHUB_RUN_ID}/attempts/${GITHUB_RUN_ATTEMPT}` },
        }),
      },
    },
  }
}
