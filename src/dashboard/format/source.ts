// Describes the source of a deployment (pure).
import type { Deployment, Revision } from './state.ts'

type SourceKind = 'branch' | 'box' | 'archive' | 'grid'
export type SourceText = { kind: SourceKind; kindWord: string; name: string; version: string | undefined }

const DIGEST = /@sha256:([0-9a-f]{4})[0-9a-f]*([0-9a-f]{4})$/

export const shortCommit = (sha: string): string => sha.slice(0, 7)
export const shortImage = (uri: string): string => uri.replace(DIGEST, '@sha256:$1…$2').replace(/^.*\/(?=[^/]+\/)/, '')

type Described = Pick<Deployment | Revision, 'source' | 'source_config' | 'source_revision_config'>

export function describeSource({ source, source_config, source_revision_config }: Described): SourceText {
  const { image_uri, repo_ref, repo_commit_sha } = source_revision_config
  if (source === 'githost') {
    const name = (source_config.repo_url ?? 'repository').replace(/^https?:\/\/[^/]+\//, '').replace(/\.git$/, '')
    const version = repo_ref ?? (repo_commit_sha ? shortCommit(repo_commit_sha) : undefined)
    return { kind: 'branch', kindWord: 'Git repository', name, version }
  }
  if (source === 'internal_template')
    return { kind: 'grid', kindWord: 'Template', name: source_config.template_id ?? 'template', version: undefined }
  if (source === 'internal_source')
    return { kind: 'archive', kindWord: 'Archive', name: 'Uploaded archive', version: undefined }
  return { kind: 'box', kindWord: 'Image', name: image_uri ? shortImage(image_uri) : 'Image', version: undefined }
}

/** `shop.apps.example.com` of `https://shop.apps.example.com/`. */
export const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url)

type Actor = Revision['actor']
export function describeActor({ kind, name }: Actor): string {
  if (kind === 'push') return name ? `push by ${name}` : 'a push'
  if (kind === 'cron') return 'the schedule'
  if (kind === 'listener') return name ? `listener ${name}` : 'a listener'
  return name ?? (kind === 'key' ? 'an API key' : 'a person')
}
