// Dockerfile and compose files. An engine without images passes them over if a language is found, and says so.
import type { Folder } from '../source-files.ts'

const DOCKERFILES = ['Dockerfile', 'Containerfile']
const COMPOSE_FILES = ['compose.yaml', 'compose.yml', 'docker-compose.yml', 'docker-compose.yaml']

export function proposeContainerFiles(app: Folder, buildsImages: boolean) {
  const dockerfile = DOCKERFILES.find(app.has)
  if (dockerfile === 'Dockerfile' && buildsImages) return { isBuilt: 'dockerfile' as const, refusal: '', warning: '' }
  const compose = COMPOSE_FILES.find(app.has)
  const found = dockerfile ?? compose
  if (!found) return null
  const reason = dockerfile
    ? 'needs an agent that builds images: use a listener with the container or kubernetes engine'
    : 'describes several containers, which are not deployed together: make a deployment for each service'
  const passedOver = dockerfile ? 'this agent builds no images' : 'the folder itself is deployed'
  return {
    isBuilt: null,
    refusal: `\`${found}\` ${reason}. Or set \`start_command\` in slipway.json.`,
    warning: `\`${found}\` is not used: ${passedOver}.`,
  }
}
