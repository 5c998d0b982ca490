// Routes of tags.
import { slice } from '../kernel/routes.ts'
import { namedPage } from '../protocol/wire.ts'
import { DeploymentRef } from './schema.ts'
import * as s from './tags.schema.ts'
import * as tags from './tags.ts'

export const tagRoutes = slice('Tags', 'Keys and values to find deployments by.')
  .get('/v2/tag-keys', {
    id: 'listTagKeys',
    summary: 'List the tag keys of this workspace',
    query: namedPage('key'),
    reply: s.TagKeyList,
    verb: tags.listTagKeys,
  })
  .post('/v2/tag-keys', {
    id: 'createTagKey',
    summary: 'Create a tag key',
    body: s.NewTagKey,
    status: 201,
    reply: s.TagKey,
    errors: ['tag_key_taken', 'tag_keys_full'],
    location: key => `/v2/tag-keys/${key.id}`,
    verb: tags.createTagKey,
  })
  .get('/v2/tag-keys/{tag_key_id}', {
    id: 'readTagKey',
    versioned: true,
    summary: 'Read a tag key',
    params: s.TagKeyRef,
    reply: s.TagKey,
    errors: ['tag_key_not_found'],
    verb: tags.readTagKey,
  })
  .patch('/v2/tag-keys/{tag_key_id}', {
    id: 'renameTagKey',
    versioned: true,
    summary: 'Rename a tag key',
    params: s.TagKeyRef,
    body: s.TagKeyName,
    reply: s.TagKey,
    errors: ['tag_key_not_found', 'tag_key_taken'],
    verb: tags.renameTagKey,
  })
  .delete('/v2/tag-keys/{tag_key_id}', {
    id: 'deleteTagKey',
    versioned: true,
    summary: 'Delete a tag key with its values, and remove them from all deployments',
    params: s.TagKeyRef,
    errors: ['tag_key_not_found'],
    verb: tags.deleteTagKey,
  })
  .get('/v2/tag-keys/{tag_key_id}/values', {
    id: 'listTagValues',
    summary: 'List the values of a tag key',
    params: s.TagKeyRef,
    query: namedPage('value'),
    reply: s.TagValueList,
    errors: ['tag_key_not_found'],
    verb: tags.listTagValues,
  })
  .post('/v2/tag-keys/{tag_key_id}/values', {
    id: 'createTagValue',
    summary: 'Create a value of a tag key',
    params: s.TagKeyRef,
    body: s.NewTagValue,
    status: 201,
    reply: s.TagValue,
    errors: ['tag_key_not_found', 'tag_value_taken', 'tag_values_full'],
    location: value => `/v2/tag-values/${value.id}`,
    verb: tags.createTagValue,
  })
  .get('/v2/tag-values/{tag_value_id}', {
    id: 'readTagValue',
    versioned: true,
    summary: 'Read a tag value',
    params: s.TagValueRef,
    reply: s.TagValue,
    errors: ['tag_value_not_found'],
    verb: tags.readTagValue,
  })
  .patch('/v2/tag-values/{tag_value_id}', {
    id: 'renameTagValue',
    versioned: true,
    summary: 'Rename a tag value',
    params: s.TagValueRef,
    body: s.TagValueName,
    reply: s.TagValue,
    errors: ['tag_value_not_found', 'tag_value_taken'],
    verb: tags.renameTagValue,
  })
  .delete('/v2/tag-values/{tag_value_id}', {
    id: 'deleteTagValue',
    versioned: true,
    summary: 'Delete a tag value, and remove it from all deployments',
    params: s.TagValueRef,
    errors: ['tag_value_not_found'],
    verb: tags.deleteTagValue,
  })
  .get('/v2/deployments/{deployment_id}/tags', {
    id: 'listTags',
    summary: 'List the tags of a deployment',
    params: DeploymentRef,
    reply: s.Tags,
    errors: ['deployment_not_found'],
    verb: tags.listTags,
  })
  .post('/v2/deployments/{deployment_id}/tags', {
    id: 'addTags',
    summary: 'Add tags to a deployment',
    params: DeploymentRef,
    body: s.NewTags,
    reply: s.Tags,
    errors: ['deployment_not_found', 'tag_value_not_found', 'tags_full', 'deployment_deleting'],
    verb: tags.addTags,
  })
  .delete('/v2/deployments/{deployment_id}/tags/{tag_value_id}', {
    id: 'removeTag',
    summary: 'Remove a tag from a deployment',
    params: s.DeploymentTagRef,
    errors: ['deployment_not_found', 'tag_value_not_found'],
    verb: tags.removeTag,
  })
