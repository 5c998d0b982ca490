// The variables by which the tools of all languages use the proxy and the certificates of the machine.
import { expect, test } from 'vitest'
import { spreadNetworkVariables } from '../../src/agent/engines/process/network-variables.ts'

test('a bundle of certificates reaches the tools that read another variable, unless that is set', () => {
  expect(spreadNetworkVariables({ SSL_CERT_FILE: '/ca.pem', DENO_CERT: '/own.pem' })).toEqual({
    SSL_CERT_FILE: '/ca.pem',
    CURL_CA_BUNDLE: '/ca.pem',
    REQUESTS_CA_BUNDLE: '/ca.pem',
    PIP_CERT: '/ca.pem',
    NODE_EXTRA_CA_CERTS: '/ca.pem',
    GIT_SSL_CAINFO: '/ca.pem',
    DENO_CERT: '/own.pem',
  })
})

test('additional certificates are not taken for all that are trusted', () => {
  const env = { NODE_EXTRA_CA_CERTS: '/company.pem' }
  expect(spreadNetworkVariables(env)).toEqual(env)
})

test('a proxy reaches tools that read one case, Yarn and Java, whose options never have its password', () => {
  const https = 'http://ada:hush@proxy.example.com:3128'
  const java =
    '-Dhttps.proxyHost=proxy.example.com -Dhttps.proxyPort=3128 ' +
    '-Dhttp.nonProxyHosts=localhost|*.example.com -Daether.connector.http.useSystemProperties=true'
  expect(spreadNetworkVariables({ HTTPS_PROXY: https, NO_PROXY: 'localhost, .example.com' })).toEqual({
    https_proxy: https,
    HTTPS_PROXY: https,
    no_proxy: 'localhost, .example.com',
    NO_PROXY: 'localhost, .example.com',
    YARN_HTTPS_PROXY: https,
    MAVEN_OPTS: java,
    GRADLE_OPTS: java,
  })
})
