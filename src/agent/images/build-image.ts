// Builds an image by the Dockerfile of an application.
import type * as fs from 'node:fs'
import { relative } from 'node:path'
import { Readable } from 'node:stream'
import { packTar } from 'modern-tar/fs'
import { PermanentError } from '../engine.ts'
import { readText } from '../system/files.ts'
import { findBaseImages } from './base-images.ts'
import { createBuildLogParser } from './build-lines.ts'
import { deploymentLabels, REVISION_LABEL } from './container-labels.ts'
import { DockerApiError } from './docker-api.ts'
import { parseDockerignore } from './dockerignore.ts'
import { explainBuildFailure } from './image-failures.ts'
import { BUILD_MEMORY, type BuildJob, builtImageName, watchBuild } from './watched-build.ts'

const MAX_DOCKERIGNORE_LENGTH = 32 * 1024

/** The images that the Dockerfile in that folder uses. */
export function readBaseImages(folder: string): string[] {
  const dockerfile = readText(folder, 'Dockerfile')
  if (dockerfile === null) throw new PermanentError('The Dockerfile is a link or a folder. Replace it with a file.')
  return findBaseImages(dockerfile)
}

/** Returns the id of the image. `folder` has the Dockerfile. */
export async function buildDockerfile({ api, owner, spec, task }: BuildJob, folder: string): Promise<string> {
  const { signal, log, failed } = watchBuild(task)
  const labels = { ...deploymentLabels(owner, spec.deployment_id), [REVISION_LABEL]: spec.revision_id }
  const version = (await api.hasBuildKit()) ? 2 : undefined
  const query = {
    t: `${builtImageName(spec)}:${spec.revision_id}`,
    labels,
    version,
    rm: true,
    forcerm: true,
    memory: BUILD_MEMORY,
    memswap: BUILD_MEMORY,
  }
  const headers = { 'Content-Type': 'application/x-tar' }
  const body = Readable.from(packTar(folder, { filter: dockerignoreFilter(folder) }))
  const lines = createBuildLogParser()
  let id: string | undefined
  try {
    for await (const message of api.streamProgress('/build', { query, headers, body, signal })) {
      lines.push(message).forEach(log)
      if (typeof message.aux === 'object') id = message.aux.ID ?? id
    }
    lines.end().forEach(log)
  } catch (error) {
    lines.end().forEach(log)
    throw failed(error instanceof DockerApiError && error.status ? explainBuildFailure(error.message) : error)
  }
  if (!id) throw failed('The engine ended the build without an image. Ask the operator to check the engine’s log.')
  return id
}

export const excludeGit = (folder: string) => (path: string) => !/(^|\/)\.git(\/|$)/.test(relative(folder, path))
function dockerignoreFilter(folder: string): (path: string, stat: fs.Stats) => boolean {
  const text = readText(folder, '.dockerignore') ?? ''
  // The limit is needed because every file is matched against every line.
  if (text.length > MAX_DOCKERIGNORE_LENGTH)
    throw new PermanentError(`The .dockerignore has more than ${MAX_DOCKERIGNORE_LENGTH} characters. Shorten it.`)
  const ignored = parseDockerignore(text)
  return (path, stat) => excludeGit(folder)(path) && !ignored(relative(folder, path), stat.isDirectory())
}
