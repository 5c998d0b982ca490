// The operator's own GitHub App.
import { GITHUB_APP } from '../../support/fake-git-hosts.ts'
import { PKCS1 } from '../../support/github-app-key.ts'

export const GITHUB_SETTINGS = {
  GITHUB_APP_ID: GITHUB_APP.id,
  GITHUB_APP_SLUG: GITHUB_APP.slug,
  GITHUB_APP_PRIVATE_KEY: PKCS1,
  GITHUB_APP_CLIENT_ID: GITHUB_APP.clientId,
  GITHUB_APP_CLIENT_SECRET: GITHUB_APP.clientSecret,
  GITHUB_APP_WEBHOOK_SECRET: 'secret',
}
