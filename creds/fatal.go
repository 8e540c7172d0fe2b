package creds

import (
	"errors"
	"slices"
)

// fatalCodes are the error codes of STS and the metadata services that another try does not cure: somebody has to change
// a policy, a token or a region first.
var fatalCodes = []string{
	"AccessDenied",
	"AccessDeniedException",
	"ExpiredTokenException",
	"IDPRejectedClaim",
	"InvalidClientTokenId",
	"InvalidIdentityToken",
	"MalformedPolicyDocument",
	"PackedPolicyTooLarge",
	"RegionDisabledException",
	"UnrecognizedClientException",
}

// isFatal reports whether err carries one of the codes.
func isFatal(err error) bool {
	coded, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err)
	return ok && slices.Contains(fatalCodes, coded.ErrorCode())
}
