// Dockerfile and compose files. An engine without images passes them over if a language is found, and says so.
import type { Folder } from '../source-files.ts'

const DOCKERFILES = ['Dockerfile', 'Containerfile']
export const COMPOSE_FILES = ['compose.yaml', 'compose.yml', 'docker-compose.yml', 'docker-compose.yaml']

/** `isBuilt`: the Dockerfile builds it. `refusal`: if nothing else is found. `warnings`: if something else is. */
export function proposeContainerFiles(app: Folder, buildsImages: boolean) {
  const dockerfile = DOCKERFILES.find(app.has)
  const compose = COMPOSE_FILES.find(app.has)
  if (!dockerfile && !compose) return null
  const isBuilt = dockerfile === 'Dockerfile' && buildsImages
  const deployGroup = `\`slipway deploy ${compose}\` deploys its services`
  const reason = dockerfile
    ? 'needs an agent that builds images: use a listener with the container or kubernetes engine'
    : `describes containers: ${deployGroup}`
  return {
    isBuilt,
    refusal: `\`${dockerfile ?? compose}\` ${reason}. Or set \`start_command\` in slipway.json.`,
    warnings: [
      ...(dockerfile && !isBuilt ? [`\`${dockerfile}\` is not used: this agent builds no images.`] : []),
      ...(compose ? [`\`${compose}\` is not used: ${deployGroup}.`] : []),
    ],
  }
}
