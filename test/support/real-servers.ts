// The metadata of real MCP servers, on their real host names, as far as discovery uses it.
import {
  makeRegistrationHandler,
  makeResourceMetadata,
  makeServerMetadata,
  OIDC_METADATA_PATH,
  RESOURCE_METADATA_PATH,
  respondWithChallenges,
  respondWithHtml,
  respondWithStatus,
  SERVER_METADATA_PATH,
  type Sites,
} from './mcp-sites.ts'

const challengeWithMetadata = (address: string) =>
  respondWithChallenges(`Bearer realm="OAuth", resource_metadata="${address}", error="invalid_token"`)
const WITHOUT_REGISTRATION = { registration_endpoint: undefined }
const WITHOUT_PKCE = { code_challenge_methods_supported: undefined, registration_endpoint: undefined }
const SECRET_POST = 'client_secret_post'

type RealServer = { server: string; sites: Sites }

const github: RealServer = {
  server: 'https://api.githubcopilot.com/mcp/',
  sites: {
    'https://api.githubcopilot.com': {
      '/mcp/': challengeWithMetadata(`https://api.githubcopilot.com${RESOURCE_METADATA_PATH}/mcp/`),
      [`${RESOURCE_METADATA_PATH}/mcp/`]: makeResourceMetadata(
        'https://api.githubcopilot.com/mcp',
        'https://github.com/login/oauth',
        {
          scopes_supported: ['repo', 'read:org'],
        },
      ),
    },
    'https://github.com': {
      [`${SERVER_METADATA_PATH}/login/oauth`]: {
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

const ATLASSIAN_ISSUER = 'https://auth.atlassian.com/VCeDsk8ZHncYF1g234fKtc4lNipbBhu3'
const atlassian: RealServer = {
  server: 'https://mcp.atlassian.com/v1/mcp/authv2',
  sites: {
    'https://mcp.atlassian.com': {
      '/v1/mcp/authv2': challengeWithMetadata(`https://mcp.atlassian.com${RESOURCE_METADATA_PATH}/v1/mcp/authv2`),
      [`${RESOURCE_METADATA_PATH}/v1/mcp/authv2`]: makeResourceMetadata(
        'https://mcp.atlassian.com/v1/mcp/authv2',
        ATLASSIAN_ISSUER,
      ),
      // The older address has no metadata of its own.
      '/v1/mcp': respondWithChallenges('Bearer'),
      [SERVER_METADATA_PATH]: makeServerMetadata('https://cf.mcp.atlassian.com'),
    },
    'https://auth.atlassian.com': {
      [SERVER_METADATA_PATH + new URL(ATLASSIAN_ISSUER).pathname]: makeServerMetadata('https://auth.atlassian.com'),
      [new URL(ATLASSIAN_ISSUER).pathname + SERVER_METADATA_PATH]: makeServerMetadata('https://auth.atlassian.com'),
    },
  },
}

const slack: RealServer = {
  server: 'https://mcp.slack.com/mcp',
  sites: {
    'https://mcp.slack.com': {
      '/mcp': challengeWithMetadata(`https://mcp.slack.com${RESOURCE_METADATA_PATH}`),
      [RESOURCE_METADATA_PATH]: makeResourceMetadata('https://mcp.slack.com', 'https://mcp.slack.com'),
      [SERVER_METADATA_PATH]: makeServerMetadata('https://slack.com', WITHOUT_REGISTRATION),
    },
  },
}

const google: RealServer = {
  server: 'https://bigquery.googleapis.com/mcp',
  sites: {
    'https://bigquery.googleapis.com': {
      '/mcp': respondWithChallenges('Bearer realm="https://accounts.google.com/"'),
      [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata(
        'https://bigquery.googleapis.com/mcp',
        'https://accounts.google.com/',
        {
          scopes_supported: ['https://www.googleapis.com/auth/bigquery'],
        },
      ),
    },
    'https://accounts.google.com': {
      [OIDC_METADATA_PATH]: {
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

const SENTRY_METADATA_URL = `https://mcp.sentry.dev${RESOURCE_METADATA_PATH}`
const sentry: RealServer = {
  server: 'https://mcp.sentry.dev/mcp',
  sites: {
    'https://mcp.sentry.dev': {
      '/mcp': respondWithChallenges(
        [
          'Bearer realm="OAuth"',
          `resource_metadata="${SENTRY_METADATA_URL}"`,
          'error="invalid_token"',
          'error_description="Missing or invalid access token"',
          `resource_metadata="${SENTRY_METADATA_URL}/mcp"`,
        ].join(', '),
      ),
      [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata('https://mcp.sentry.dev/mcp', 'https://mcp.sentry.dev'),
      [SERVER_METADATA_PATH]: makeServerMetadata('https://mcp.sentry.dev'),
      '/register': makeRegistrationHandler(),
    },
  },
}

/** Registers only clients with a known name, and answers 200 instead of 201. */
const figma: RealServer = {
  server: 'https://mcp.figma.com/mcp',
  sites: {
    'https://mcp.figma.com': {
      '/mcp': challengeWithMetadata(`https://mcp.figma.com${RESOURCE_METADATA_PATH}`),
      [RESOURCE_METADATA_PATH]: makeResourceMetadata('https://mcp.figma.com/mcp', 'https://api.figma.com', {
        scopes_supported: ['mcp:connect'],
      }),
    },
    'https://api.figma.com': {
      [SERVER_METADATA_PATH]: makeServerMetadata('https://api.figma.com', {
        authorization_endpoint: 'https://www.figma.com/oauth/mcp',
        token_endpoint: 'https://api.figma.com/v1/oauth/token',
        registration_endpoint: 'https://api.figma.com/v1/oauth/mcp/register',
      }),
      '/v1/oauth/mcp/register': async (request: Request) => {
        const { client_name } = (await request.clone().json()) as { client_name: string }
        if (client_name === 'Known') return makeRegistrationHandler({}, 200)(request)
        return respondWithStatus(403, 'Forbidden', { 'Content-Type': 'text/plain' })()
      },
    },
  },
}

const ENTRA_ISSUER = 'https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0'
const entra: RealServer = {
  server: 'https://mcp.svc.cloud.microsoft/enterprise',
  sites: {
    'https://mcp.svc.cloud.microsoft': {
      '/enterprise': challengeWithMetadata(`https://mcp.svc.cloud.microsoft${RESOURCE_METADATA_PATH}/enterprise`),
      [`${RESOURCE_METADATA_PATH}/enterprise`]: makeResourceMetadata(
        'https://mcp.svc.cloud.microsoft/enterprise',
        ENTRA_ISSUER,
      ),
    },
    'https://login.microsoftonline.com': {
      [`${new URL(ENTRA_ISSUER).pathname}${OIDC_METADATA_PATH}`]: makeServerMetadata(ENTRA_ISSUER, {
        ...WITHOUT_PKCE,
        token_endpoint_auth_methods_supported: ['client_secret_post', 'private_key_jwt'],
        scopes_supported: ['openid', 'profile', 'email', 'offline_access'],
      }),
    },
  },
}

const COGNITO_ISSUER = 'https://cognito-idp.us-east-1.amazonaws.com/us-east-1_AbCdEfGhI'
const COGNITO_ORIGIN = 'https://acme.auth.us-east-1.amazoncognito.com'
const cognito: RealServer = {
  server: 'https://mcp.acme.com/mcp',
  sites: {
    'https://mcp.acme.com': {
      '/mcp': challengeWithMetadata(`https://mcp.acme.com${RESOURCE_METADATA_PATH}/mcp`),
      [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata('https://mcp.acme.com/mcp', COGNITO_ISSUER),
    },
    'https://cognito-idp.us-east-1.amazonaws.com': {
      [`${new URL(COGNITO_ISSUER).pathname}${OIDC_METADATA_PATH}`]: makeServerMetadata(COGNITO_ISSUER, {
        ...WITHOUT_PKCE,
        token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
        authorization_endpoint: `${COGNITO_ORIGIN}/oauth2/authorize`,
        token_endpoint: `${COGNITO_ORIGIN}/oauth2/token`,
        revocation_endpoint: `${COGNITO_ORIGIN}/oauth2/revoke`,
      }),
    },
  },
}

const retool: RealServer = {
  server: 'https://acme.retool.com/mcp',
  sites: {
    'https://acme.retool.com': {
      '/mcp': respondWithChallenges('Bearer'),
      [`${RESOURCE_METADATA_PATH}/mcp`]: 401,
      [RESOURCE_METADATA_PATH]: makeResourceMetadata('https://acme.retool.com/mcp', 'https://acme.retool.com'),
      [SERVER_METADATA_PATH]: makeServerMetadata('https://acme.retool.com'),
      '/register': makeRegistrationHandler(),
    },
  },
}

const linear: RealServer = {
  server: 'https://mcp.linear.app/mcp',
  sites: {
    'https://mcp.linear.app': {
      '/mcp': challengeWithMetadata(`https://mcp.linear.app${RESOURCE_METADATA_PATH}/mcp`),
      [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata('https://mcp.linear.app/mcp', 'https://mcp.linear.app'),
      [SERVER_METADATA_PATH]: makeServerMetadata('https://mcp.linear.app', {
        client_id_metadata_document_supported: true,
        revocation_endpoint: 'https://mcp.linear.app/token',
        token_endpoint_auth_methods_supported: ['client_secret_basic', SECRET_POST, 'none'],
      }),
      '/register': makeRegistrationHandler(),
    },
  },
}

const htmlPage = respondWithHtml(120_000)
const singlePage: RealServer = {
  server: 'https://app.example.com/mcp',
  sites: { 'https://app.example.com': htmlPage },
}

const makeSplitServer = (origin: string, server: string, endpoints: Record<string, string>): RealServer => ({
  server: `${origin}/mcp`,
  sites: {
    [origin]: {
      '/mcp': challengeWithMetadata(`${origin}${RESOURCE_METADATA_PATH}/mcp`),
      [`${RESOURCE_METADATA_PATH}/mcp`]: makeResourceMetadata(`${origin}/mcp`, server),
    },
    [server]: {
      [SERVER_METADATA_PATH]: makeServerMetadata(server, endpoints),
      [new URL(endpoints.registration_endpoint!).pathname]: makeRegistrationHandler(),
    },
  },
})
const todoist = makeSplitServer('https://ai.todoist.net', 'https://todoist.com', {
  authorization_endpoint: 'https://todoist.com/oauth/authorize',
  token_endpoint: 'https://todoist.com/oauth/access_token',
  registration_endpoint: 'https://todoist.com/oauth/register',
})
const supabase = makeSplitServer('https://mcp.supabase.com', 'https://api.supabase.com', {
  authorization_endpoint: 'https://api.supabase.com/v1/oauth/authorize',
  token_endpoint: 'https://api.supabase.com/v1/oauth/token',
  registration_endpoint: 'https://api.supabase.com/platform/oauth/apps/register',
})

const open: RealServer = {
  server: 'https://docs.mcp.cloudflare.com/mcp',
  sites: {
    'https://docs.mcp.cloudflare.com': {
      '/mcp': respondWithStatus(200, 'event: message\ndata: {}\n\n', { 'Content-Type': 'text/event-stream' }),
    },
  },
}

export const realServers = {
  github,
  atlassian,
  slack,
  google,
  sentry,
  figma,
  entra,
  cognito,
  retool,
  linear,
  singlePage,
  todoist,
  supabase,
  open,
}
