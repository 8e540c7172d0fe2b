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

// rejectionCodes are the error codes by which a service says that the credentials themselves are no longer good. A wrong
// signature or a lack of permission is none of them: others would fare no better.
var rejectionCodes = []string{
	"ExpiredToken",
	"ExpiredTokenException",
	"InvalidClientTokenId",
	"InvalidToken",
	"RequestExpired",
	"UnrecognizedClientException",
}

func isFatal(err error) bool { return slices.Contains(fatalCodes, codeOf(err)) }

func rejects(code string) bool { return slices.Contains(rejectionCodes, code) }

// codeOf returns the error code that an AWS client found in an answer, empty for other errors.
func codeOf(err error) string {
	coded, ok := errors.AsType[interface {
		error
		ErrorCode() string
	}](err)
	if !ok {
		return ""
	}
	return coded.ErrorCode()
}
