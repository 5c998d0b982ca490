-- What a provider is to those who were connected through it. When it changes, codes and refresh tokens of before go nowhere.
-- An issuer may move its endpoints; where none is known, the token endpoint is all that there is to go by.
create function oauth_binding(p oauth_providers) returns text language sql stable
  return md5(json_build_array(coalesce(p.issuer, p.token_url), p.client_id, p.resource)::text);
