// Chooses the client for an integration's kind of git host.
import type { SealingServices } from '../../kernel/http/context.ts'
import { createGiteaHost } from './gitea.ts'
import type { Githost, Integration } from './githost.ts'
import { createGithubHost } from './github.ts'

export const createGithost = (services: SealingServices, origin: string, integration: Integration): Githost =>
  (integration.host === 'github' ? createGithubHost : createGiteaHost)(services, origin, integration)
