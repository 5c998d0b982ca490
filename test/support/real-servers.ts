// Real MCP servers as they were met, on their real host names: what they publish, in as far as it matters to whoever discovers them.
import {
  challenged,
  html,
  OIDC,
  ofResource,
  ofServer,
  RESOURCE,
  registering,
  SERVER,
  type Sites,
  status,
} from './mcp.ts'

const told = (address: string) =>
  challenged(`Bearer realm="OAuth", resource_metadata="${address}", error="invalid_token"`)
const none = { registration_endpoint: undefined }
const silent = { code_challenge_methods_supported: undefined, registration_endpoint: undefined }
const POST = 'client_secret_post'

type Real = { server: string; sites: Sites }

const github: Real = {
  server: 'https://api.githubcopilot.com/mcp/',
  sites: {
    'https://api.githubcopilot.com': {
      '/mcp/': told(`https://api.githubcopilot.com${RESOURCE}/mcp/`),
      [`${RESOURCE}/mcp/`]: ofResource('https://api.githubcopilot.com/mcp', 'https://github.com/login/oauth', {
        scopes_supported: ['repo', 'read:org'],
      }),
    },
    'https://github.com': {
      [`${SERVER}/login/oauth`]: {
        issuer: 'https://github.com/login/oauth',
        authorization_endpoint: 'https://github.com/login/oauth/authorize',
        token_endpoint: 'https://github.com/login/oauth/access_token',
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        code_challenge_methods_supported: ['S256'],
      },
    },
  },
}

const TENANT = 'https://auth.atlassian.com/VCeDsk8ZHncYF1g234fKtc4lNipbBhu3'
const atlassian: Real = {
  server: 'https://mcp.atlassian.com/v1/mcp/authv2',
  sites: {
    'https://mcp.atlassian.com': {
      '/v1/mcp/authv2': told(`https://mcp.atlassian.com${RESOURCE}/v1/mcp/authv2`),
      [`${RESOURCE}/v1/mcp/authv2`]: ofResource('https://mcp.atlassian.com/v1/mcp/authv2', TENANT),
      // The older address has no metadata of its own.
      '/v1/mcp': challenged('Bearer'),
      [SERVER]: ofServer('https://cf.mcp.atlassian.com'),
    },
    'https://auth.atlassian.com': {
      [SERVER + new URL(TENANT).pathname]: ofServer('https://auth.atlassian.com'),
      [new URL(TENANT).pathname + SERVER]: ofServer('https://auth.atlassian.com'),
    },
  },
}

const slack: Real = {
  server: 'https://mcp.slack.com/mcp',
  sites: {
    'https://mcp.slack.com': {
      '/mcp': told(`https://mcp.slack.com${RESOURCE}`),
      [RESOURCE]: ofResource('https://mcp.slack.com', 'https://mcp.slack.com'),
      [SERVER]: ofServer('https://slack.com', none),
    },
  },
}

const google: Real = {
  server: 'https://bigquery.googleapis.com/mcp',
  sites: {
    'https://bigquery.googleapis.com': {
      '/mcp': challenged('Bearer realm="https://accounts.google.com/"'),
      [`${RESOURCE}/mcp`]: ofResource('https://bigquery.googleapis.com/mcp', 'https://accounts.google.com/', {
        scopes_supported: ['https://www.googleapis.com/auth/bigquery'],
      }),
    },
    'https://accounts.google.com': {
      [OIDC]: {
        issuer: 'https://accounts.google.com',
        authorization_endpoint: 'https://accounts.google.com/o/oauth2/v2/auth',
        token_endpoint: 'https://oauth2.googleapis.com/token',
        revocation_endpoint: 'https://oauth2.googleapis.com/revoke',
        response_types_supported: ['code', 'token', 'id_token', 'code token', 'none'],
        token_endpoint_auth_methods_supported: ['client_secret_post', 'client_secret_basic'],
        code_challenge_methods_supported: ['plain', 'S256'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        scopes_supported: ['openid', 'email', 'profile'],
      },
    },
  },
}

const ofSentry = `https://mcp.sentry.dev${RESOURCE}`
const sentry: Real = {
  server: 'https://mcp.sentry.dev/mcp',
  sites: {
    'https://mcp.sentry.dev': {
      '/mcp': challenged(
        `Bearer realm="OAuth", resource_metadata="${ofSentry}", error="invalid_token", error_description="Missing or invalid access token", resource_metadata="${ofSentry}/mcp"`,
      ),
      [`${RESOURCE}/mcp`]: ofResource('https://mcp.sentry.dev/mcp', 'https://mcp.sentry.dev'),
      [SERVER]: ofServer('https://mcp.sentry.dev'),
      '/register': registering(),
    },
  },
}

/** It takes those clients whose name it knows, and says 200. */
const figma: Real = {
  server: 'https://mcp.figma.com/mcp',
  sites: {
    'https://mcp.figma.com': {
      '/mcp': told(`https://mcp.figma.com${RESOURCE}`),
      [RESOURCE]: ofResource('https://mcp.figma.com/mcp', 'https://api.figma.com', {
        scopes_supported: ['mcp:connect'],
      }),
    },
    'https://api.figma.com': {
      [SERVER]: ofServer('https://api.figma.com', {
        authorization_endpoint: 'https://www.figma.com/oauth/mcp',
        token_endpoint: 'https://api.figma.com/v1/oauth/token',
        registration_endpoint: 'https://api.figma.com/v1/oauth/mcp/register',
      }),
      '/v1/oauth/mcp/register': async (request: Request) => {
        const { client_name } = (await request.clone().json()) as { client_name: string }
        if (client_name === 'Known') return registering({}, 200)(request)
        return status(403, 'Forbidden', { 'Content-Type': 'text/plain' })()
      },
    },
  },
}

const DIRECTORY = 'https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0'
const entra: Real = {
  server: 'https://mcp.svc.cloud.microsoft/enterprise',
  sites: {
    'https://mcp.svc.cloud.microsoft': {
      '/enterprise': told(`https://mcp.svc.cloud.microsoft${RESOURCE}/enterprise`),
      [`${RESOURCE}/enterprise`]: ofResource('https://mcp.svc.cloud.microsoft/enterprise', DIRECTORY),
    },
    'https://login.microsoftonline.com': {
      [`${new URL(DIRECTORY).pathname}${OIDC}`]: ofServer(DIRECTORY, {
        ...{ ...silent, token_endpoint_auth_methods_supported: ['client_secret_post', 'private_key_jwt'] },
        scopes_supported: ['openid', 'profile', 'email', 'offline_access'],
      }),
    },
  },
}

const POOL = 'https://cognito-idp.us-east-1.amazonaws.com/us-east-1_AbCdEfGhI'
const DOMAIN = 'https://acme.auth.us-east-1.amazoncognito.com'
const cognito: Real = {
  server: 'https://mcp.acme.com/mcp',
  sites: {
    'https://mcp.acme.com': {
      '/mcp': told(`https://mcp.acme.com${RESOURCE}/mcp`),
      [`${RESOURCE}/mcp`]: ofResource('https://mcp.acme.com/mcp', POOL),
    },
    'https://cognito-idp.us-east-1.amazonaws.com': {
      [`${new URL(POOL).pathname}${OIDC}`]: ofServer(POOL, {
        ...{ ...silent, token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'] },
        ...{ authorization_endpoint: `${DOMAIN}/oauth2/authorize`, token_endpoint: `${DOMAIN}/oauth2/token` },
        revocation_endpoint: `${DOMAIN}/oauth2/revoke`,
      }),
    },
  },
}

const retool: Real = {
  server: 'https://acme.retool.com/mcp',
  sites: {
    'https://acme.retool.com': {
      '/mcp': challenged('Bearer'),
      [`${RESOURCE}/mcp`]: 401,
      [RESOURCE]: ofResource('https://acme.retool.com/mcp', 'https://acme.retool.com'),
      [SERVER]: ofServer('https://acme.retool.com'),
      '/register': registering(),
    },
  },
}

const linear: Real = {
  server: 'https://mcp.linear.app/mcp',
  sites: {
    'https://mcp.linear.app': {
      '/mcp': told(`https://mcp.linear.app${RESOURCE}/mcp`),
      [`${RESOURCE}/mcp`]: ofResource('https://mcp.linear.app/mcp', 'https://mcp.linear.app'),
      [SERVER]: ofServer('https://mcp.linear.app', {
        client_id_metadata_document_supported: true,
        revocation_endpoint: 'https://mcp.linear.app/token',
        token_endpoint_auth_methods_supported: ['client_secret_basic', POST, 'none'],
      }),
      '/register': registering(),
    },
  },
}

const page = html(120_000)
const singlePage: Real = {
  server: 'https://app.example.com/mcp',
  sites: { 'https://app.example.com': page },
}

const elsewhere = (origin: string, server: string, endpoints: Record<string, string>): Real => ({
  server: `${origin}/mcp`,
  sites: {
    [origin]: { '/mcp': told(`${origin}${RESOURCE}/mcp`), [`${RESOURCE}/mcp`]: ofResource(`${origin}/mcp`, server) },
    [server]: {
      [SERVER]: ofServer(server, endpoints),
      [new URL(endpoints.registration_endpoint!).pathname]: registering(),
    },
  },
})
const todoist = elsewhere('https://ai.todoist.net', 'https://todoist.com', {
  authorization_endpoint: 'https://todoist.com/oauth/authorize',
  token_endpoint: 'https://todoist.com/oauth/access_token',
  registration_endpoint: 'https://todoist.com/oauth/register',
})
const supabase = elsewhere('https://mcp.supabase.com', 'https://api.supabase.com', {
  authorization_endpoint: 'https://api.supabase.com/v1/oauth/authorize',
  token_endpoint: 'https://api.supabase.com/v1/oauth/token',
  registration_endpoint: 'https://api.supabase.com/platform/oauth/apps/register',
})

const open: Real = {
  server: 'https://docs.mcp.cloudflare.com/mcp',
  sites: {
    'https://docs.mcp.cloudflare.com': {
      '/mcp': status(200, 'event: message\ndata: {}\n\n', { 'Content-Type': 'text/event-stream' }),
    },
  },
}

export const real = {
  ...{ github, atlassian, slack, google, sentry, figma, entra, cognito, retool, linear, singlePage },
  ...{ todoist, supabase, open },
}
