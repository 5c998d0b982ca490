// Chooses the client for an integration's kind of git host.
import type { DatabaseServices, SealingServices } from '../../kernel/http/context.ts'
import type { HostName } from '../../protocol/host-kinds.ts'
import { createGiteaHost } from './gitea.ts'
import type { Githost, Integration } from './githost.ts'
import { createGithubHost } from './github.ts'
import { createGitlabHost } from './gitlab.ts'
import { createPlainGitHost } from './plain-git.ts'

type CreateHost = (services: SealingServices & DatabaseServices, origin: string, integration: Integration) => Githost
const CLIENTS: Record<HostName, CreateHost> = {
  github: createGithubHost,
  gitlab: createGitlabHost,
  gitea: createGiteaHost,
  forgejo: createGiteaHost,
  git: createPlainGitHost,
}

export const createGithost: CreateHost = (services, origin, integration) =>
  CLIENTS[integration.host](services, origin, integration)
